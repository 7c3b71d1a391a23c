-- The first of `1 + more` new fences, a number.
local function next_fence(counter, more)
  local time = redis.call('TIME')
  local fence = time[1] * 1000000 + time[2]
  local last = tonumber(redis.call('GET', counter) or 0)
  if fence <= last then
    fence = last + 1
  end
  -- `tostring` would give 1.758e+15.
  redis.call('SET', counter, string.format('%.0f', fence + more))
  return fence
end

