package events

// Waiting is a kind of reason why a step or a task does not go on. The same words are used by the API, the command line, the metrics and
// verify.
type Waiting string

// The kinds. This is their only list. Nothing waits for a limit, concurrency or child yet.
const (
	WaitingAgent       Waiting = "agent"
	WaitingCapacity    Waiting = "capacity"
	WaitingLimit       Waiting = "limit"
	WaitingConcurrency Waiting = "concurrency"
	WaitingSignal      Waiting = "signal"
	WaitingChild       Waiting = "child"
	WaitingSleep       Waiting = "sleep"
	WaitingRetry       Waiting = "retry"
	WaitingCoolDown    Waiting = "cool_down"
	WaitingQuiet       Waiting = "quiet"
	WaitingPaused      Waiting = "paused"
	WaitingNotBefore   Waiting = "not_before"
	WaitingOperator    Waiting = "operator"
)

// waitings says of each kind, in the order of their list, what it means.
var waitings = []struct {
	kind Waiting
	says string
}{
	{WaitingAgent, "an agent that can take it: no instance offers the operation, its service is failing, or its requests cannot be sent"},
	{WaitingCapacity, "a free place: all instances of its agent are busy"},
	{WaitingLimit, "a place within a limit that workflows share"},
	{WaitingConcurrency, "the end of another task with the same key"},
	{WaitingSignal, "a signal"},
	{WaitingChild, "the end of the task that it started"},
	{WaitingSleep, "the time at which it is to continue"},
	{WaitingRetry, "its next attempt, after the pause that follows a failure"},
	{WaitingCoolDown, "the end of its cool-down, after its attempts were used up"},
	{WaitingQuiet, "the time after which no request without an answer can take effect any more"},
	{WaitingPaused, "an operator, who paused it or its agent: resume the task or the agent, or cancel or terminate the task"},
	{WaitingNotBefore, "the time before which it must not start"},
	{WaitingOperator, "an operator, since it is parked: remove the cause and retry it, skip or complete the step, cancel or terminate it"},
}

// Waitings returns all kinds.
func Waitings() []Waiting {
	list := make([]Waiting, len(waitings))
	for i := range waitings {
		list[i] = waitings[i].kind
	}
	return list
}

// Says completes "it waits for".
func (w Waiting) Says() string {
	for i := range waitings {
		if waitings[i].kind == w {
			return waitings[i].says
		}
	}
	return string(w)
}
