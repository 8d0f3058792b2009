package wftest

import (
	"encoding/json"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/scheduler"
)

// File is a test file that has no fault.
type File struct {
	// Path is the path of the file, and Workflow the name of the workflow that it tests.
	Path     string
	Workflow string
	Cases    []*Case

	source     *scheduler.Source
	definition *scheduler.Definition
}

// Case is one task and how it must go.
type Case struct {
	Name string
	// Line is its line in the file.
	Line int

	submission events.Submission
	// mocks and undoMocks hold the answers to the calls of each step, and of items, by their path.
	mocks, undoMocks map[string]*mock
	requests         []request
	// advance is when the case ends, as time since the submission; zero if it ends with the task.
	advance events.Duration
	expect  expectation
}

// mock is what an agent answers to the calls of one operation of one step.
type mock struct {
	line    int
	answers []answer
	// always means that the one answer is given to each call.
	always bool
	// shared means that the mock stands for all cases, so a case need not use it up.
	shared bool
}

// answer is one answer of an agent.
type answer struct {
	output json.RawMessage
	// fault is nil for a success.
	fault      *events.Error
	effect     events.Effect
	after      events.Duration
	retryAfter events.Duration
	// silent means that no answer ever comes.
	silent bool
}

// request is what an operator asks of the task, at a time since the submission or when the task or a step has a state.
type request struct {
	line    int
	request events.Request
	at      events.Duration
	// step is the step whose state counts, "" for the task. state is "" if the request has a time.
	step, state string
	// refused means that the engine must refuse the request.
	refused bool
}

// expectation is how a task must be at the end of its case. An absent member, nil or "", is not compared.
type expectation struct {
	line int
	// state is the state of the task, or stateRejected.
	state string
	// reason is a part of the reason.
	reason string
	// labels are all labels of the task, whether the submission or the workflow gave them.
	labels   map[string]string
	priority *int
	output   json.RawMessage
	steps    map[string]*stepExpectation
	// undone are the steps in the order in which they were undone.
	undone []string
	// neverCalled are steps whose agent is never called, not even to undo.
	neverCalled []string
	lines       map[string]int
}

// stateRejected is the state of a submission that never became a task.
const stateRejected = "rejected"

// stepExpectation is how a step must be at the end of its case.
type stepExpectation struct {
	line          int
	state         events.StepState
	attempts      *int
	input, output json.RawMessage
	// counts are those numbers of items that matter, of a step that has items.
	counts map[string]int
	// fault is a part of the message of the latest error.
	fault        string
	undoAttempts *int
	undoInput    json.RawMessage
}
