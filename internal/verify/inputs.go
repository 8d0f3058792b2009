package verify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"

	"github.com/sagalog/sagalog/events"
)

// join reads a partition of an input topic in step with the facts. An owner judges inputs in the order of their topic. So the
// facts of one topic are in the order of their causes, and an input between two of them led to no fact.
type join struct {
	in    events.Input
	topic string
	Bounds
	pull func() (events.Record, error, bool)
	stop func()
	// peeked is the next record, which was read but not used yet.
	peeked *events.Record
	// judged is the offset of the first input that, according to the facts, was not judged.
	judged int64
	// last is the last record before the offset judged.
	last *events.Record
	// since is the offset of the fact that last moved judged: inputs without a fact were judged after it.
	since int64
	// hash is that of the last judged input when the log begins, if it was cut.
	hash string
}

type joining struct {
	in     events.Input
	topic  string
	number int32
}

var errStopped = errors.New("stopped")

func newJoin(ctx context.Context, c *check, what joining) *join {
	b := c.bounds[what.topic][what.number]
	j := &join{in: what.in, topic: what.topic, Bounds: b, since: -1}
	span := Span{Topic: what.topic, Partition: what.number, From: b.Start, To: b.End, Committed: true}
	j.pull, j.stop = iter.Pull2(func(yield func(events.Record, error) bool) {
		err := c.cfg.Log.Read(ctx, span, func(r events.Record) error {
			if !yield(r, nil) {
				return errStopped
			}
			return nil
		})
		if err != nil && !errors.Is(err, errStopped) {
			yield(events.Record{}, err)
		}
	})
	return j
}

// missing notes which records of the input are gone. Those that are passed are trimmed when nobody needs them any more, all but the last.
func (j *join) missing(p *partition) {
	switch {
	case j.Start == 0:
	case j.Start <= j.judged:
		p.book.gone(CheckInputs, "%s/%d: the records before offset %d are trimmed, and are not compared with their facts", j.topic, p.number, j.Start)
	default:
		p.book.cannot(CheckInputs, "%s/%d was trimmed to offset %d, and the facts judge it up to offset %d alone: what was between them cannot be checked", j.topic, p.number, j.Start, j.judged)
	}
}

func (j *join) close() { j.stop() }

// peek returns the next record, nil at the end.
func (j *join) peek() (*events.Record, error) {
	if j.peeked != nil {
		return j.peeked, nil
	}
	r, err, ok := j.pull()
	if !ok || err != nil {
		return nil, err
	}
	j.peeked = &r
	return j.peeked, nil
}

// upTo yields each record below an offset.
func (j *join) upTo(offset int64, give func(*events.Record)) error {
	for {
		r, err := j.peek()
		if err != nil || r == nil || r.Offset >= offset {
			return err
		}
		j.peeked, j.last = nil, r
		give(r)
	}
}

// drop skips the remaining records below an offset: of records that were rejected together, the log may show more than the first.
func (j *join) drop(offset int64) error {
	last := j.last
	defer func() { j.last = last }()
	return j.upTo(offset, func(*events.Record) {})
}

// cause checks the cause of a fact, and returns the input that it names.
func (p *partition) cause(f *events.Fact, at Place) (*events.Record, error) {
	in, number, offset, ok := f.Cause.Input()
	if !ok {
		if follows, found := strings.CutPrefix(string(f.Cause), "f/"); found {
			pos, err := events.ParsePosition(follows)
			t, known := p.owners.find(pos)
			before := err == nil && p.owners.beforeCut(pos)
			if !before && (err != nil || !known || t.offset(pos.Sequence) > at.Offset) {
				p.wrong(CheckOwnership, "cause", at, "the fact names %s as its cause, which is not an earlier fact", f.Cause)
			}
		}
		return nil, nil
	}
	if number != p.number {
		p.wrong(CheckInputs, "cause", at, "the fact names the input %s of another partition as its cause", f.Cause)
		return nil, nil
	}
	j := p.inputs[in]
	if offset < j.judged {
		p.wrong(CheckInputs, "judged_twice", at, "the fact judges the input %s, but an earlier fact judged that topic up to offset %d already (INV12)", f.Cause, j.judged)
		return nil, nil
	}
	if err := p.advance(j, offset, at); err != nil {
		return nil, err
	}
	last := offset
	if b, ok := f.Body.(*events.InputRejected); ok {
		last = max(last, b.Last)
	}
	j.judged, j.since = last+1, at.Offset
	if offset < j.Start {
		if in == events.Submissions {
			p.acks.judged(p.check, p.number, offset, f)
		}
		return nil, j.drop(last + 1)
	}
	r, err := j.peek()
	if err != nil {
		return nil, err
	}
	if r == nil || r.Offset != offset {
		p.wrong(CheckInputs, "no_input", at, "the fact judges the input %s, but %s holds no such record", f.Cause, j.topic)
		return nil, nil
	}
	j.peeked, j.last = nil, r
	p.count.Inputs[string(in)] += int(last + 1 - offset)
	p.input(j, r)
	if last > offset && r.Next() != last+1 {
		p.wrong(CheckInputs, "rejected_together", at, "the fact rejects the inputs of %s from offset %d to %d together, but the records there can be read from offset %d on", j.topic, offset, last, r.Next())
	}
	if err := j.drop(last + 1); err != nil {
		return nil, err
	}
	_, rejected := f.Body.(*events.InputRejected)
	unread := rejected && f.CauseHash == "" // the owner could not read it, though another build may
	if hash := events.HashInput(r); hash != f.CauseHash && !unread {
		p.wrong(CheckInputs, "input_changed", at, "the fact judges the input %s with the hash %s, but the record there has %s", f.Cause, f.CauseHash, hash)
	}
	return r, nil
}

// advance takes the inputs below an offset, none of which led to a fact.
func (p *partition) advance(j *join, offset int64, at Place) error {
	err := j.upTo(offset, func(r *events.Record) {
		p.count.Inputs[string(j.in)]++
		p.input(j, r)
		if j.in == events.Submissions && !asks(r) {
			p.silentSubmission(r, at)
		} else {
			p.silentReport(j, r, at)
		}
	})
	if j.in == events.Submissions {
		clear(p.swept)
	}
	return err
}

// passed moves the resume points past inputs that led to no fact.
func (p *partition) passed(b *events.InputsPassed, at Place) error {
	for in, to := range b.Inputs {
		j := p.inputs[in]
		if j == nil {
			p.wrong(CheckInputs, "passed", at, "the fact passes inputs of the unknown topic %s", in)
			continue
		}
		if to.Next <= j.judged {
			continue
		}
		if to.Next > j.End {
			p.wrong(CheckInputs, "passed", at, "the fact passes inputs of %s up to offset %d, but the topic ends at %d", j.topic, to.Next, j.End)
		}
		if err := p.advance(j, to.Next, at); err != nil {
			return err
		}
		j.judged, j.since = to.Next, at.Offset
		if r := j.last; to.Hash != "" && to.Next > j.Start && (r == nil || r.Offset != to.Next-1 || events.HashInput(r) != to.Hash) {
			p.wrong(CheckInputs, "input_changed", at, "the fact passes inputs up to offset %d of %s, but the last of them is not the record there", to.Next, j.topic)
		}
	}
	return nil
}

// input looks once at each record of an input topic.
func (p *partition) input(j *join, r *events.Record) {
	if j.in == events.Submissions && !asks(r) {
		p.acks.seen(p.check, r)
	}
	if from := r.Header(events.HeaderForwardedFrom); from != "" {
		p.forwards.copy(p.check, forwardKey{j.in, from}, r)
	}
}

func inputPlace(j *join, r *events.Record) Place { return Place{j.topic, r.Partition, r.Offset} }

// readSubmission returns the task and the content hash of a submission.
func readSubmission(r *events.Record) (sub *events.Submission, content string, err error) {
	env, data, err := events.Open(r)
	if err != nil {
		return nil, "", err
	}
	if sub, err = events.ParseSubmission(data); err != nil {
		return nil, "", err
	}
	if sub.ID, err = events.TaskID(r.Key, env.Subject, sub.ID); err != nil {
		return nil, "", err
	}
	content, err = sub.ContentHash()
	return sub, content, err
}

// asks says whether a record of submissions is a request.
func asks(r *events.Record) bool {
	env, _, err := events.Open(r)
	return err == nil && (events.VerbOf(env.Type).Submitted() || isRelative(env.Type))
}

// silentSubmission judges a submission that led to no fact: it must be a duplicate.
func (p *partition) silentSubmission(r *events.Record, at Place) {
	j := p.inputs[events.Submissions]
	wrong := func(task, kind, format string, args ...any) {
		p.book.add(Finding{Check: CheckInputs, Kind: kind, Place: inputPlace(j, r), Task: task, What: fmt.Sprintf(format, args...) + ", and " + at.String() + " passes it without a fact (INV12)"})
	}
	sub, content, err := readSubmission(r)
	if err != nil {
		wrong("", "lost", "the submission cannot be read (%v)", err)
		return
	}
	id := sub.ID
	if home := events.Home(id, p.check.number); home != p.number {
		wrong(id, "lost", "the submission belongs in partition %d", home)
		return
	}
	known, ok := p.known[digestOf(id)]
	was := known.content
	if !ok {
		was, ok = p.swept[digestOf(id)]
	}
	if u := p.carry.toCome(id); !ok && u != nil {
		p.count.Inputs["duplicates"]++
		u.submissions = append(u.submissions, silentCopy{silence{inputPlace(j, r), at}, contentOf(content)})
		return
	}
	switch {
	case !ok:
		wrong(id, "lost", "the submission was never accepted, rejected or sent on")
	case was != 0 && was != contentOf(content):
		wrong(id, "lost", "the submission conflicts with the accepted task")
	default:
		p.count.Inputs["duplicates"]++
	}
}

// silentReport judges a report or request that led to no fact: it must have come too late to change anything.
func (p *partition) silentReport(j *join, r *events.Record, at Place) {
	wrong := func(task, format string, args ...any) {
		p.book.add(Finding{Check: CheckInputs, Kind: "report_lost", Place: inputPlace(j, r), Task: task, What: fmt.Sprintf(format, args...) + ", and " + at.String() + " passes it without a fact"})
	}
	p.count.Inputs["passed_reports"]++
	passed := silence{inputPlace(j, r), at}
	env, data, err := events.Open(r)
	if err != nil {
		wrong("", "the record cannot be read (%v)", err)
		return
	}
	var q struct {
		events.Report
		ID string `json:"id"`
	}
	if err := json.Unmarshal(data, &q); err != nil {
		wrong("", "the record cannot be read (%v)", err)
		return
	}
	if silentOther(p, j, passed, env.Type, data, wrong) {
		return
	}
	id, err := events.TaskID(r.Key, env.Subject, q.Task)
	if err != nil {
		wrong("", "the record names no task (%v)", err)
		return
	}
	if home := events.Home(id, p.check.number); home != p.number {
		wrong(id, "the record belongs in partition %d", home)
		return
	}
	if q.ID == "" {
		q.ID = env.ID
	}
	verb := events.VerbOf(env.Type)
	s := p.live[id]
	if u := p.carry.toCome(id); s == nil && u != nil {
		u.silent = append(u.silent, &silentReport{silence: passed, verb: verb, id: q.ID, report: q.Report})
		return
	}
	if s == nil {
		return
	}
	switch {
	case verb != "":
		if !s.requests[q.ID] && s.accepted < j.since {
			wrong(id, "the request %q (%s) was not judged", q.ID, verb)
		}
	default:
		st := s.step(q.Step)
		if st == nil {
			return
		}
		if w := st.work(q.Operation); w.needs(q.Result) && w.running && w.attempts == q.Attempt && w.started < j.since && q.Ticket == s.incarnation && (q.Run == 0 || q.Run == st.run) {
			wrong(id, "the result of attempt %d of the %s of step %s, which was running, was not recorded", q.Attempt, q.Operation, q.Step)
		}
	}
}

// silentOther judges a record that is about no task of this partition, and says whether it is one.
func silentOther(p *partition, j *join, passed silence, kind string, data []byte, wrong func(task, format string, args ...any)) bool {
	switch {
	case isLimitRequest(kind):
		silentLimitRequest(p, kind, data, wrong)
	case isPermit(kind):
		silentPermit(p, j, passed, kind, data, wrong)
	case isRelative(kind):
		silentRelative(p, j, kind, data, wrong)
	case isOfSchedule(kind):
		silentOfSchedule(p, kind, data, wrong)
	default:
		return false
	}
	return true
}

// unjudged counts the inputs after the resume point.
func (p *partition) unjudged(j *join) (n int64, err error) {
	err = j.upTo(j.End, func(r *events.Record) {
		n++
		p.input(j, r)
		if p.cfg.AtRest && n == 1 {
			p.wrong(CheckInputs, "not_judged", inputPlace(j, r), "the input is not judged yet")
		}
	})
	p.count.Inputs["not_yet_judged"] += int(n)
	return n, err
}
