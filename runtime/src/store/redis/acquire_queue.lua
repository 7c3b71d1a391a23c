
-- The rest of `acquire.lua`: somebody has one of the locks, or queues for it.
local found = redis.call('MGET', unpack(KEYS, 2))
local locks, terms, answers = {}, {}, {}
local at = 4
while #locks < #KEYS / 2 - 1 do
  local ttl, owner, place, spare, size = unpack(ARGV, at, at + 4)
  for token = at + 5, at + 4 + size do
    locks[#locks + 1] = #locks + 1
    terms[#locks] = {ARGV[token], ttl, owner, place, spare}
  end
  at = at + 5 + size
end

each(locks, answers, function(i)
  return take(KEYS[2 * i], KEYS[2 * i + 1], found[2 * i - 1], as_line(found[2 * i]), unpack(terms[i]))
end)
return answers
