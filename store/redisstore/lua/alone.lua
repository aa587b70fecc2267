-- What stands for sharing.lua where no keys are shared with other libraries: a lease is live if the record has it.
local sharing, stride = false, 1
local function live(rec, holder, token) return rec and not rec.r and rec.h == holder and rec.t == token and rec.u > now end
