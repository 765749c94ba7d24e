-- Argo CD's health of a BindingImport: Healthy while its Secret is a copy of the binding. The other side may
-- consent at any time, so a copy that is missing is waited for, and no fault.
local status = obj.status or {}
if status.observedGeneration ~= obj.metadata.generation then
  return {status = "Progressing", message = "The operator has not looked at this spec yet."}
end
for _, condition in ipairs(status.conditions or {}) do
  if condition.type == "Ready" then
    if condition.status == "True" then
      return {status = "Healthy", message = condition.message}
    end
    return {status = "Progressing", message = condition.message}
  end
end
return {status = "Progressing", message = "The operator has not looked at this resource yet."}
