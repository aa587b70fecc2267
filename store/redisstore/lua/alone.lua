-- What stands for java.lua where no keys are shared with Java clients: a lease is live if the record has it.
local java, stride = false, 1
local function live(rec, holder, token) return rec and not rec.r and rec.h == holder and rec.t == token and rec.u > now end
