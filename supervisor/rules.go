package supervisor

// Rule names a rule of the protocol, so that a test can switch it off and show that something breaks.
type Rule uint

// The rules of docs/protocol.md, "What breaks without each rule", that the simulator switches off one by one. The
// values are explicit because they are printed with seeds.
const (
	// RuleClaimPrev: a claim names its predecessor.
	RuleClaimPrev Rule = 1
	// RuleReadBack: the claim is read back before anything is decided.
	RuleReadBack Rule = 2
	// RuleSequence: the sequence is gapless.
	RuleSequence Rule = 4
	// RuleContiguous: acknowledged offsets are contiguous.
	RuleContiguous Rule = 8
	// RuleDurable: effects leave after their facts are durable.
	RuleDurable Rule = 16
	// RuleWatermark: the watermark is contiguous, and a new owner sends again what is above it.
	RuleWatermark Rule = 32
	// RuleUnknown: an append of unknown outcome ends the epoch.
	RuleUnknown Rule = 64
	// RuleResume: inputs are resumed from the fold alone.
	RuleResume Rule = 128
	// RuleTimers: a timer waits for the reports below an end offset that was requested after it fell due.
	RuleTimers Rule = 256
	// RuleForward: a misplaced input is forwarded by a fact.
	RuleForward Rule = 512
)

// off says whether the rule is switched off.
func (r Rule) off(rule Rule) bool { return r&rule != 0 }
