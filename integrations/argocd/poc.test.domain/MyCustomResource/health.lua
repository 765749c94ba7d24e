-- Argo CD's health of a MyCustomResource: Healthy while its friend is there. A friend may come at any time,
-- so one that is missing is waited for, and no fault.
local status = obj.status or {}
if status.observedGeneration ~= obj.metadata.generation then
  return {status = "Progressing", message = "The operator has not looked at this spec yet."}
end
for _, condition in ipairs(status.conditions or {}) do
  if condition.type == "Healthy" then
    if condition.status == "True" then
      return {status = "Healthy", message = condition.message}
    end
    return {status = "Progressing", message = condition.message}
  end
end
return {status = "Progressing", message = "The operator has not looked at this resource yet."}
