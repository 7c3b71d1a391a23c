-- Results that are kept beside a lock, in one value: for each function `until length length `, with
-- the end in ms and the bytes of its name and of its result, and then the name and the result.

-- The result that the function `asked` has in `value`; and the results of other functions, with
-- their last end. None of them has ended. A value of another form has no results.
local function results_in(value, asked)
  local time = redis.call('TIME')
  local now = time[1] * 1000 + math.floor(time[2] / 1000)
  local result, others, last, at = nil, '', 0, 1
  while true do
    local from, to, ends, named, long = string.find(value, '^(%d+) (%d+) (%d+) ', at)
    if not from then
      return result, others, last, now
    end
    local name = string.sub(value, to + 1, to + named)
    at = to + named + long + 1
    if now < tonumber(ends) then
      if name == asked then
        result = string.sub(value, to + named + 1, at - 1)
      else
        others, last = others .. string.sub(value, from, at - 1), math.max(last, ends)
      end
    end
  end
end

