-- Argo CD's health of a Kindling resource that runs Pods: Degraded where a person is needed, Suspended
-- while it is paused or hibernated or waits for an approval, Healthy once it is Ready for the spec as it stands, Progressing until then.
local found = {}
local status = obj.status or {}
if status.observedGeneration ~= obj.metadata.generation then
  return {status = "Progressing", message = "The operator has not looked at this spec yet."}
end
for _, condition in ipairs(status.conditions or {}) do
  found[condition.type] = condition
end
local function holds(name)
  return found[name] ~= nil and found[name].status == "True"
end
local ready = found["Ready"] or {message = "The operator has not looked at this resource yet."}
if holds("Degraded") or holds("Stalled") then
  return {status = "Degraded", message = ready.message}
end
if holds("Paused") then
  return {status = "Suspended", message = found["Paused"].message}
end
if ready.reason == "Hibernated" or ready.reason == "ApprovalPending" then
  return {status = "Suspended", message = ready.message}
end
if holds("Ready") then
  return {status = "Healthy", message = ready.message}
end
return {status = "Progressing", message = ready.message}
