package supervisor

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/sagalog/sagalog/events"
)

// inbox holds the inputs that were read but not judged, how far each topic has been judged, and which inputs are poison.
type inbox struct {
	*core
	// queues are in the order of inputKinds. There are none while the owner does not decide.
	queues  []*inputQueue
	catalog catalogReading
	// poison holds the inputs that made deciding panic. They are rejected without being looked at.
	poison map[events.Cause]*poisoned
	// missed are the records that were looked for and not found. It outlives epochs: see misses.
	missed map[events.Cause]bool
	// position outlives epochs, and is used only if RuleResume is off.
	position map[events.Input]int64
}

// inputKind is an input topic.
type inputKind struct {
	name events.Input
	// limit returns how many bytes a record may have; nil means no limit.
	limit func(s *events.Settings) int
	// judgements say how a record is judged, by its type; others judges the types that are not listed; if it is nil,
	// they are rejected.
	judgements map[string]judgement
	others     judgement
	// yields says that these inputs leave room in a batch for facts that follow from the results of attempts.
	yields bool
	// parks says that a poisoned input parks its task, because otherwise its report would be lost.
	parks bool
	// keyless is how long an input holds back those behind it because the key file lacks the key that opens it: see unopened.
	keyless time.Duration
}

// judgement decides about one input. It returns errUndefined if definitions must be read first, and an *events.NoKeyError if a sealed value must
// be opened first that cannot be now.
type judgement func(i *inbox, item *input) error

var errUndefined = errors.New("the definition is not read yet")

// inputKinds are the inputs.
var inputKinds = []inputKind{
	{
		name: events.Reports, parks: true, keyless: keylessReports,
		judgements: reportJudgements(),
	},
	{
		name: events.Submissions, yields: true, keyless: keylessSubmissions, judgements: submissionJudgements(), others: (*inbox).judgeSubmission,
		limit: func(s *events.Settings) int { return s.SubmissionBytes },
	},
}

// reportJudgements returns how the records of <ns>.reports are judged: results of attempts, requests, and ends of tasks.
func reportJudgements() map[string]judgement {
	all := map[string]judgement{"": (*inbox).judgeReport, events.TypeReport: (*inbox).judgeReport}
	for _, v := range events.Verbs() {
		all[v.Type()] = (*inbox).judgeRequest
	}
	permitJudgements(all)
	all[events.TypeTaskEnd] = judgeTaskEnd
	for _, kind := range []string{events.TypeSchedulePause, events.TypeScheduleResume, events.TypeScheduleTrigger} {
		all[kind] = judgeScheduleRequest
	}
	all[events.TypeChildAnswer] = judgeChild
	all[events.TypeLimitPause], all[events.TypeLimitResume] = judgeLimitRequest, judgeLimitRequest
	return all
}

// submissionJudgements returns how the records of <ns>.submissions are judged that are no submissions: some requests.
func submissionJudgements() map[string]judgement {
	all := map[string]judgement{}
	for _, v := range events.Verbs() {
		if v.Submitted() {
			all[v.Type()] = (*inbox).judgeRequest
		}
	}
	parentJudgements(all)
	return all
}

// The sets of inputs that must be judged up to some end offset before a timer may fire.
var (
	// outcomeInputs bring the results of attempts.
	outcomeInputs = []events.Input{events.Reports}
	// everyInput is all of them.
	everyInput = []events.Input{events.Reports, events.Submissions}
)

// share is how full a batch may be, in quarters, before an input waits.
type share struct {
	input    events.Input
	quarters int
}

// The shares of the inputs in a batch, before and after timers and starts. None starves while the others keep coming.
var (
	firstShares  = []share{{events.Reports, 2}, {events.Submissions, 3}, {events.Reports, 3}}
	secondShares = []share{{events.Reports, 4}, {events.Submissions, 4}}
)

// inputQueue holds the records of one input topic that were read and not judged yet.
type inputQueue struct {
	// kind is the index in inputKinds.
	kind  int
	items []input
	// judged is the offset of the first input that has not been judged; fetched is the offset of the first one that has not been
	// read.
	judged, fetched int64
	// last is the record that was judged last; its offset is negative until one has been judged.
	last events.Record
	// silent counts the inputs judged since the last one that led to a fact.
	silent int
	// verify is the hash that the record before the resume point must have, or "" once it is verified.
	verify string
	// keyless says that the first input could not be judged because a key is missing; retryAt is when it is tried again.
	retryAt events.Instant
	keyless bool
	// missing is the key that it misses, as far as that is known.
	missing missing
	// given is the fact to be recorded about lost records that an operator gave up, or nil.
	given *events.InputLossAccepted
}

// input is a record to be judged.
type input struct {
	in     events.Input
	record events.Record
	// delivery is the number of the delivery that brought it: definitions must be requested after that delivery.
	delivery uint64
	// env and data are the decoded envelope and data of the record.
	env  events.Envelope
	data []byte
	// submits says that it is a submission, which may ask for replies.
	submits bool
}

// reset drops the inputs that were read.
func (i *inbox) reset() { i.queues, i.catalog = nil, catalogReading{} }

// fold takes note of recorded resume points.
func (i *inbox) fold(f *events.Fact) {
	switch f.Body.(type) {
	case *events.InputsPassed, *events.InputLossAccepted:
		for _, q := range i.queues {
			q.silent = 0
		}
	}
}

// takeOver reads the inputs from the folded resume points, regardless of what was read before. docs/protocol.md,
// "Inputs are resumed from the fold alone".
func (i *inbox) takeOver() {
	i.queues = nil
	from := map[events.Input]int64{}
	for k := range inputKinds {
		in := inputKinds[k].name
		q := &inputQueue{kind: k, last: events.Record{Offset: -1}}
		from[in] = q.resume(i.state.Partition.Inputs[in])
		if i.cfg.Off.off(RuleResume) && i.position[in] > from[in] {
			from[in] = i.position[in]
			q.judged, q.fetched, q.verify = i.position[in], i.position[in], ""
		}
		i.queues = append(i.queues, q)
	}
	for cause := range i.poison { // inputs below the resume point are never judged again
		if in, _, offset, ok := cause.Input(); ok && offset < i.state.Partition.Inputs[in].Next {
			delete(i.poison, cause)
		}
	}
	i.alone.takeOver()
	i.say(ReadInputs{i.gen, from})
}

// resume returns the offset to read from: the resume point, or one before it if the log knows the hash of the last
// judged record, so that the record can be compared.
func (q *inputQueue) resume(p events.Passed) int64 {
	q.judged, q.fetched = p.Next, p.Next
	if p.Hash == "" || p.Next == 0 {
		return p.Next
	}
	q.verify = p.Hash
	return p.Next - 1
}

func (i *inbox) queue(in events.Input) *inputQueue {
	for _, q := range i.queues {
		if inputKinds[q.kind].name == in {
			return q
		}
	}
	return nil
}

// read takes records of an input topic in order, which end before next; transaction markers count.
func (i *inbox) read(in events.Input, records []events.Record, next int64) error {
	q := i.queue(in)
	i.catalog.deliveries++
	q.items = slices.Grow(q.items, len(records))
	for n := range records {
		r := &records[n]
		if q.verify != "" {
			if r.Offset < q.judged-1 {
				continue // the batch of the record to be verified may begin before it
			}
			if r.Offset != q.judged-1 || events.HashInput(r) != q.verify {
				return inputLost(in, fmt.Errorf("offset %d", q.judged-1))
			}
			q.verify = ""
			continue
		}
		if r.Offset < q.fetched {
			if r.Next() <= q.fetched {
				continue
			}
			rest := *r // the resume point is within a batch that cannot be read
			rest.Offset, rest.Unread = q.fetched, r.Next()-q.fetched
			r = &rest
		}
		q.items = append(q.items, input{in: in, record: *r, delivery: i.catalog.deliveries})
		q.fetched = r.Next()
	}
	if q.verify != "" && next >= q.judged {
		return inputLost(in, fmt.Errorf("offset %d does not exist", q.judged-1))
	}
	q.fetched = max(q.fetched, next)
	if len(q.items) == 0 {
		q.judged = max(q.judged, q.fetched)
	}
	i.position[in] = max(i.position[in], q.fetched)
	return nil
}

func inputLost(in events.Input, err error) error {
	return fmt.Errorf("%w: %s: %w; see docs/lost.md", ErrInputLost, in, err)
}

// reading says whether inputs are being read.
func (i *inbox) reading() bool { return i.queues != nil }

// backlog returns how many inputs of a topic were read and not judged yet.
func (i *inbox) backlog(in events.Input) int {
	if q := i.queue(in); q != nil {
		return len(q.items)
	}
	return 0
}

// backlogs counts the inputs that wait to be judged, except those that yield and are held back.
func (i *inbox) backlogs() int {
	n := 0
	for _, q := range i.queues {
		n += i.queued(q)
	}
	return n
}

func (i *inbox) queued(q *inputQueue) int {
	if inputKinds[q.kind].yields {
		return min(len(q.items), i.dispatch.yielding())
	}
	return len(q.items)
}

// waiting is backlogs without the inputs that wait for definitions or keys.
func (i *inbox) waiting() int {
	n := 0
	for _, q := range i.queues {
		if !q.keyless && (inputKinds[q.kind].name != events.Submissions || !i.catalog.question.asked) {
			n += i.queued(q)
		}
	}
	return n
}

// judgedBelow says whether everything below an offset of an input has been judged.
func (i *inbox) judgedBelow(in events.Input, end int64) bool {
	//mutant:end-passed-when-judged
	return i.queue(in).judged >= end
}

// pass records how far each topic was judged. It records the position of the judged inputs, not the end of the topic,
// and each topic separately. docs/protocol.md, "InputsPassed carries what was judged, for each topic".
func (i *inbox) pass() error {
	body := &events.InputsPassed{Inputs: map[events.Input]events.Passed{}}
	for _, q := range i.queues {
		in := inputKinds[q.kind].name
		if q.judged <= i.state.Partition.Inputs[in].Next {
			continue
		}
		//mutant:passed-is-judged
		p := events.Passed{Next: q.judged}
		// A marker has no content to compare. Behind one, the next owner does not notice that the topic was replaced by another of the
		// same length or a greater one, until it has judged a record again.
		if q.last.Offset == q.judged-1 && !q.last.Control {
			p.Hash = resumeHash(&q.last)
		}
		body.Inputs[in] = p
	}
	return i.record(&events.Fact{Body: body, Cause: i.lastCause()}, nil)
}

// unpassed says whether some topic was judged beyond its recorded resume point.
func (i *inbox) unpassed() bool {
	return slices.ContainsFunc(i.queues, func(q *inputQueue) bool {
		return q.judged > i.state.Partition.Inputs[inputKinds[q.kind].name].Next
	})
}

// passWhenIdle records the watermark of the effects and the resume points of an idle partition. A client that waits for a
// duplicate gets its answer from the resume points. The fact does not lead to another such fact, because it has no effects. A topic whose next input
// waits for a key is idle too.
func (i *inbox) passWhenIdle() error {
	for _, q := range i.queues {
		if len(q.items) > 0 && !q.keyless {
			return nil
		}
	}
	if i.now.Sub(i.epoch.log.quietSince) >= refusedQuiet {
		i.refused = nil // nothing of that size is left to append
	}
	//mutant:idle-partition-passes
	if i.unpassed() || i.outbox.watermarkOverdue() {
		return i.pass()
	}
	return nil
}
