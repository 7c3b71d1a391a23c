-- The results kept beside a lock are all in one value. Each result is `until length length `, then
-- the name of its function, then the result itself. `until` is its end in ms. The lengths are the
-- bytes of the name and of the result.

-- Returns the result of the function `asked` in `value`, the results of other functions, the latest
-- end of those, and the server's time in ms. Ended results are left out. A value in another format
-- has no results.
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
    ends = tonumber(ends)
    if now < ends then
      if name == asked then
        result = string.sub(value, to + named + 1, at - 1)
      else
        others, last = others .. string.sub(value, from, at - 1), math.max(last, ends)
      end
    end
  end
end

