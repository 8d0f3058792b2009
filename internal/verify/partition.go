package verify

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sagalog/sagalog/events"
)

// digest stands for a name: 128 bits of SHA-256.
type digest [16]byte

func digestOf(s string) digest {
	sum := sha256.Sum256([]byte(s))
	return digest(sum[:16])
}

// accepted is what is known about a task while its ID is remembered.
type accepted struct {
	content uint64
	ended   events.Instant
	// remember is how long it is remembered after its end; zero if the settings say it.
	remember time.Duration
	// scheduled says that a schedule or another task started it.
	scheduled bool
	// parent stands for the step that it does, zero if it does none.
	parent uint64
	// child says that its parent has not released it, and kept that it is not forgotten before. tries counts the children that it has not released.
	child, kept bool
	tries       int
	// never says that it was never accepted.
	never bool
}

func contentOf(hash string) uint64 {
	b, err := hex.DecodeString(hash)
	if err != nil || len(b) < 8 {
		return 0
	}
	return binary.BigEndian.Uint64(b)
}

// partition reads and checks one partition.
type partition struct {
	*check
	number int32
	owners *ownership
	fold   *folding
	inputs map[events.Input]*join
	dead   map[events.Input]*deadLetters
	known  map[digest]accepted
	live   map[string]*story
	// reruns are the tasks that are rerun somewhere in the log, or undo themselves for their parent after they have ended. ended are those of them that have
	// ended since.
	reruns map[string]bool
	ended  map[string]*story
	swept  map[digest]uint64                // forgotten after a submission was judged
	held   map[string]map[string]inputPrint // by task and request
	defs   map[string]*definition
	limits map[string]*limit
	// limitsOffset is the highest offset of an object of a limit that was adopted.
	limitsOffset int64
	// timetables are the schedules whose home is the partition.
	timetables timetables
	accepted   int
	next       int64
	settled    settled
	settings   settings
	// time is the time of the latest fact or claim; jumpedAt is when it last moved by more than events.TimeJump.
	time, jumpedAt events.Instant
	// correcting is To of a TimeCorrected that is not settled.
	correcting events.Instant
	// carry is the carry under way; nil if none is. begins says that the next fact is the first one of a log that was cut, and lost that it cannot
	// be judged.
	carry        *carry
	begins, lost bool
}

// partition reads one partition of events, and the topics that belong to it.
func (c *check) partition(ctx context.Context, number int32) error {
	b := c.bounds[c.topics.Events][number]
	p := &partition{
		check: c, number: number, owners: newOwnership(), inputs: map[events.Input]*join{}, dead: map[events.Input]*deadLetters{},
		known: map[digest]accepted{}, live: map[string]*story{}, reruns: map[string]bool{}, ended: map[string]*story{}, swept: map[digest]uint64{}, held: map[string]map[string]inputPrint{},
		defs: map[string]*definition{}, limits: map[string]*limit{}, timetables: timetables{}, next: b.Start,
	}
	p.fold = newFolding(p)
	var err error
	if p.begins, err = beginsWithCarry(ctx, p, b); err != nil {
		return err
	}
	p.owners.cut, p.owners.rule.cut = p.begins, p.begins
	c.owners[number] = p.owners
	if err := findContinued(ctx, p, b); err != nil {
		return err
	}
	if err := p.readDead(ctx); err != nil {
		return err
	}
	for in, topic := range map[events.Input]string{events.Submissions: c.topics.Submissions, events.Reports: c.topics.Reports} {
		j := newJoin(ctx, c, joining{in, topic, number})
		defer j.close()
		p.inputs[in] = j
	}
	err = c.cfg.Log.Read(ctx, Span{Topic: c.topics.Events, Partition: number, From: b.Start, To: b.End}, func(r events.Record) error {
		if r.Offset%1000 == 0 {
			c.progress(c.topics.Events, number, r.Offset, b.End)
		}
		return p.record(&r)
	})
	if err != nil {
		return err
	}
	c.progress(c.topics.Events, number, b.End, b.End)
	if p.next < b.End {
		p.wrong(CheckOwnership, "hole", p.place(p.next), "the log ends at offset %d, but its records only reach to %d", b.End, p.next)
	}
	return p.finish(b)
}

func (p *partition) place(offset int64) Place {
	return Place{Topic: p.topics.Events, Partition: p.number, Offset: offset}
}

func (p *partition) wrong(check, kind string, at Place, format string, args ...any) {
	p.book.add(Finding{Check: check, Kind: kind, Place: at, What: fmt.Sprintf(format, args...)})
}

// folded folds the next record of events, and checks who wrote it. It returns the fact, or nil if every reader skips the record.
func (p *partition) folded(r *events.Record) (*events.Fact, error) {
	at := p.place(r.Offset)
	if r.Offset != p.next {
		p.wrong(CheckOwnership, "hole", at, "the records from offset %d up to here are missing", p.next)
	}
	p.next = r.Offset + 1
	p.count.Records++
	if r.Control {
		return nil, p.fold.control(r)
	}
	f, err := events.DecodeFact(r)
	if err != nil {
		p.wrong(CheckFold, "unreadable", at, "the record cannot be read: %v", err)
		p.fold.stopped = true
		return nil, nil
	}
	fate, err := p.fold.apply(f, r)
	if err != nil {
		return nil, err
	}
	accepted, wrong := p.owners.judge(f, r)
	for _, what := range wrong {
		p.book.add(Finding{Check: CheckOwnership, Kind: "writer", Place: at, Task: f.Task, What: what})
	}
	if fate != 0 && (fate == events.FateAccepted) != accepted {
		p.wrong(CheckFold, "fate", at, "the rule of the format and the engine's fold disagree on whether the record is accepted: %t by the rule, %t by the fold", accepted, !accepted)
	}
	p.explainFact(f, r, accepted)
	if p.cfg.Fact != nil {
		p.cfg.Fact(f, r, accepted)
	}
	if _, claim := f.Body.(*events.PartitionClaimed); !accepted && !claim && p.owners.older(f) {
		p.book.warn(Finding{Check: CheckOwnership, Kind: "writer", Place: at, Task: f.Task, What: "the record is of epoch " + f.Epoch.String() + ", before the log begins: every reader skips it, and whether it was claimed is not known"})
	}
	if !accepted {
		return nil, nil
	}
	return f, nil
}

// record takes the next record of events.
func (p *partition) record(r *events.Record) error {
	f, err := p.folded(r)
	if err != nil || f == nil {
		return err
	}
	at := p.place(r.Offset)
	if p.begins {
		p.begins = false
		if !beginsCut(p, f, at) {
			return nil
		}
	}
	if p.lost {
		return nil
	}
	p.timed(f.Time)
	if _, claim := f.Body.(*events.PartitionClaimed); claim {
		return nil
	}
	p.count.Facts++
	p.accepted++
	if u, ok := f.Body.(*events.Unreadable); ok {
		p.wrong(CheckFold, "unreadable", at, "the fact cannot be read: %v", u.Err)
		return nil
	}
	// (A rejection has the ID that its input named, but is not a fact of that task.)
	if _, rejection := f.Body.(*events.InputRejected); !rejection && f.Task != "" && events.Home(f.Task, p.check.number) != p.number {
		p.book.add(Finding{Check: CheckAttempts, Kind: "home", Place: at, Task: f.Task, What: fmt.Sprintf("the task's home is partition %d, but its fact is here (INV1)", events.Home(f.Task, p.check.number))})
	}
	p.correctsOnly(f, at)
	p.carry.uninterrupted(p, f, at)
	p.settled.take(f)
	input, err := p.cause(f, at)
	if err != nil {
		return err
	}
	return p.fact(f, at, input)
}

// fact takes an accepted fact. input is the input that caused it, if there is one and it could be read.
func (p *partition) fact(f *events.Fact, at Place, input *events.Record) error {
	if related(p, f, at, input) {
		return nil
	}
	switch b := f.Body.(type) {
	case *events.SettingsAdopted:
		p.adopt(b, at)
	case *events.VersionBarrier, *events.EffectsDelayed, *events.EffectsCaughtUp, *events.NamespaceClosed:
	case *events.CarryBegun, *events.EntityCarried, *events.CarryEnded:
		return carries(p, f, at)
	case *events.StateHash:
		p.count.StateHashes++
	case *events.TimeCorrected:
		if f.Task == "" {
			p.correct(f, b, at)
			return nil
		}
		p.tell(f, at)
	case *events.InputsPassed:
		return p.passed(b, at)
	case *events.InputLossAccepted:
		return p.givenUp(b, at)
	case *events.DefinitionAdopted:
		d := &definition{}
		if err := json.Unmarshal(b.Body, d); err != nil {
			p.wrong(CheckAttempts, "definition", at, "the definition of workflow %s cannot be read: %v", b.Workflow, err)
			return nil
		}
		p.defs[b.Hash] = d
	case *events.Submitted:
		p.submitted(f, b, at, input)
	case *events.RequestHeld:
		if p.held[f.Task] == nil {
			p.held[f.Task] = map[string]inputPrint{}
		}
		p.held[f.Task][b.Request.ID] = printInput(input)
	case *events.InputRejected:
		p.rejected(f, b, at, input)
	case *events.InputForwarded:
		p.forwarded(f, b, at, input)
	case *events.TasksSwept:
		p.remembered(f, b, at)
		p.sweep(f, b, at)
	case *events.EffectFailed:
		p.effectFailed(f, b, at)
	case *events.PermitReturned, *events.PermitsDecided, *events.LimitAdopted, *events.LimitPaused, *events.LimitResumed:
		ofLimit(p, f, at, input)
	case *events.PermitGranted, *events.PermitBlocked:
		limit, link := grantIn(b)
		permitInput(p, f, at, input, events.TypePermitGrant, limit, link)
		p.tell(f, at)
	case *events.ScheduleAdopted, *events.ScheduleFired, *events.SchedulePassed, *events.ScheduleTaskEnded, *events.ScheduleCancelRequested, *events.SchedulePaused, *events.ScheduleResumed:
		timetabled(p, f, at)
	case *events.StepProgressed, *events.StepCompleted, *events.StepFailed, *events.Compensated, *events.CompensationFailed:
		p.reported(f, at, input)
		p.tell(f, at)
	case *events.RequestRefused:
		if s := p.live[f.Task]; s != nil {
			s.stranger = asksStranger(s, input)
		}
		p.tell(f, at)
	default:
		p.tell(f, at)
	}
	return nil
}

// reported checks that an outcome belongs to its task, and not to an earlier task with the same ID.
func (p *partition) reported(f *events.Fact, at Place, input *events.Record) {
	s := p.live[f.Task]
	if s == nil || input == nil {
		return // either that is already a finding, or the fact does not follow from a report
	}
	wrong := func(format string, args ...any) {
		what := fmt.Sprintf("the outcome is that of the input %s, ", f.Cause) + fmt.Sprintf(format, args...)
		p.book.add(Finding{Check: CheckInputs, Kind: "not_its_input", Place: at, Task: f.Task, What: what})
	}
	var r events.Report
	env, data, err := events.Open(input)
	if id := requestOf(f.Body); id != "" {
		var q events.Request
		if err == nil {
			err = json.Unmarshal(data, &q)
		}
		if err != nil || events.VerbOf(env.Type) == "" || q.ID != id && (q.ID != "" || env.ID != id) {
			wrong("which is not the request %q (%v)", id, err)
		}
		return
	}
	if err == nil && env.Type == events.TypeChildAnswer {
		endedByChild(p, f, data, wrong)
		return
	}
	if err == nil {
		r, err = events.DecodeReport(data)
	}
	switch {
	case err != nil:
		wrong("which cannot be read: %v", err)
	case (r.Result == events.ResultProgress) != (f.Body.Name() == events.NameStepProgressed):
		wrong("which has the result %q", r.Result)
	case s.step(r.Step) != nil && r.Run != 0 && r.Run != s.step(r.Step).run:
		wrong("which is of run %d, but step %s is of run %d", r.Run, r.Step, s.step(r.Step).run)
	case r.Ticket != s.incarnation:
		wrong("which has the ticket %q, but the task has the incarnation %q", r.Ticket, s.incarnation)
	}
	if b, failed := f.Body.(*events.StepFailed); err == nil && failed && (b.Error.Class == events.ClassCheck || b.Output != nil) {
		if out, _ := events.Compact(r.Output); r.Result != events.ResultCompleted || !bytes.Equal(out, b.Output) {
			wrong("which does not say that the attempt completed with the output that is refused")
		}
	}
}

func (p *partition) tell(f *events.Fact, at Place) {
	s := p.live[f.Task]
	if continues(f.Body) && s == nil && p.ended[f.Task] != nil {
		s = p.ended[f.Task]
		if s.parent != nil {
			p.relatives.goesOn(s.parent.Link)
		}
		p.live[f.Task] = s
		delete(p.ended, f.Task)
	}
	if u := p.carry.toCome(f.Task); s == nil && u != nil {
		u.tell(p, f, at)
		return
	}
	if s == nil {
		what := fmt.Sprintf("%s is for a task that was never accepted", f.Body.Name())
		kind := "no_task"
		if known, ok := p.known[digestOf(f.Task)]; ok {
			kind, what = "behind_the_end", fmt.Sprintf("%s changes a task that ended at %s (INV9)", f.Body.Name(), known.ended)
		}
		p.book.add(Finding{Check: CheckAttempts, Kind: kind, Place: at, Task: f.Task, What: what})
		return
	}
	t := &telling{partition: p, story: s, fact: f, place: at}
	t.tell()
	if s.end == "" {
		return
	}
	p.count.Ended[strings.ToLower(strings.TrimPrefix(string(s.end), "Task"))]++
	delete(p.live, f.Task)
	if p.reruns[f.Task] {
		p.ended[f.Task] = s // its calls are judged when it is forgotten, or at the end of the log
	} else {
		p.ledgerTask(s, at)
	}
	k := p.known[digestOf(f.Task)]
	k.ended = f.Time
	p.known[digestOf(f.Task)] = k
}

func (p *partition) submitted(f *events.Fact, b *events.Submitted, at Place, input *events.Record) {
	wrong := func(check, kind, format string, args ...any) {
		p.book.add(Finding{Check: check, Kind: kind, Place: at, Task: f.Task, What: fmt.Sprintf(format, args...)})
	}
	name := digestOf(f.Task)
	if _, ok := p.known[name]; ok {
		wrong(CheckInputs, "accepted_twice", "the task is accepted a second time (INV12)")
	}
	p.count.Tasks++
	k := accepted{content: contentOf(b.Content), remember: b.RememberFor.Std(), scheduled: b.Schedule != "" || b.Parent != nil}
	p.known[name] = k.of(b.Parent)
	def := p.defs[b.Hash]
	if def == nil {
		wrong(CheckAttempts, "definition", "the task is accepted by the definition %s of workflow %s, which the partition did not adopt before", b.Hash, b.Workflow)
		def = &definition{}
	}
	s := &story{id: f.Task, incarnation: f.Position().String(), workflow: b.Workflow, def: def, accepted: at.Offset, at: at.Offset, time: f.Time, submittedAt: f.Time, number: p.accepted, run: 1, deadline: b.Deadline, early: early{b.NotBefore, b.Delay}, began: b.ScheduleBegan, parent: b.Parent}
	if b.Parent != nil {
		if why := p.relatives.begins(b.Parent.Link, f.Task, at); why != "" {
			wrong(CheckInputs, "child_twice", "%s", why)
		}
	}
	begins := max(f.Time, b.NotBefore)
	s.deadlineWithin = max(0, min(b.Deadline, begins.Add(events.MaxDelay.Std())).Sub(begins))
	s.cancelHeld = len(p.held[f.Task]) > 0
	delete(p.held, f.Task)
	s.soft.begin(b.RemindAfter, max(f.Time, b.NotBefore))
	p.live[f.Task] = s
	s.permit = newPermit(b)
	if c := def.Concurrency; s.permit != nil && (c == nil || c.Max != s.permit.Max || c.Parked != string(s.permit.Parked)) {
		wrong(CheckAttempts, "not_as_defined", "the task is accepted with the limit %s of %d, which differs from its definition", s.permit.Limit, s.permit.Max)
	}
	if !def.gives(b.FairBy) {
		wrong(CheckAttempts, "not_as_defined", "the task is accepted with the key %q for turns, which does not follow from the fair_by of its definition", b.FairBy)
	}
	if b.RemindAfter != def.RemindAfter {
		wrong(CheckAttempts, "not_as_defined", "the task is accepted with the soft limit %s, and its definition says %s", b.RemindAfter, def.RemindAfter)
	}
	remember := def.RememberFor
	if b.Parent != nil && remember == 0 {
		remember = p.settings.adopted.RememberFor
	}
	if b.RememberFor != remember {
		wrong(CheckAttempts, "not_as_defined", "the task is accepted to be remembered for %s, and its definition, or the setting, says %s", b.RememberFor, remember)
	}
	if in, _, _, ok := f.Cause.Input(); !ok || in != events.Submissions {
		wrong(CheckInputs, "cause", "the task is accepted because of %q, which is not a submission", f.Cause)
		return
	}
	if input == nil {
		return
	}
	sameSubmission(p, f, b, at, input, func(format string, args ...any) { wrong(CheckInputs, "not_its_input", format, args...) })
}

// sameSubmission checks that a task is accepted as its submission says.
func sameSubmission(p *partition, f *events.Fact, b *events.Submitted, at Place, input *events.Record, wrong func(format string, args ...any)) {
	sub, content, err := readSubmission(input)
	switch {
	case err != nil:
		wrong("the task is accepted by the submission %s, which cannot be read: %v", f.Cause, err)
	case sub.ID != f.Task:
		wrong("the task is accepted by the submission %s, which is of task %q", f.Cause, sub.ID)
	case !sameParent(sub, b.Parent):
		wrong("the task is accepted as a child, or not, but the submission %s says otherwise", f.Cause)
	case content != b.Content:
		wrong("the task is accepted with the content %s, but the submission %s has %s", b.Content, f.Cause, content)
	case sub.Priority != 0 && sub.Priority != b.Priority:
		wrong("the task is accepted with the priority %d, but the submission %s has %d", b.Priority, f.Cause, sub.Priority)
	case !sameTimes(f.Time, sub, b):
		wrong("the task is accepted with not_before %q, delay %s and deadline %q, which do not follow from the submission %s", b.NotBefore.String(), b.Delay, b.Deadline.String(), f.Cause)
	default: // the definition may give the task more labels
		asksFor(p, f, b, sub, at)
		for _, name := range slices.Sorted(maps.Keys(sub.Labels)) {
			if got, ok := b.Labels[name]; !ok || got != sub.Labels[name] {
				wrong("the task is accepted without the label %q of the submission %s", name, f.Cause)
			}
		}
	}
}

// extentOf counts what was read, and says how much it was.
func extentOf(p *partition, b Bounds) Extent {
	for why, n := range p.owners.void {
		p.count.Void[why] += n
	}
	p.count.BrokenEpochs += p.owners.broken
	p.count.Epochs += len(p.owners.tenures)
	e := Extent{Partition: p.number, From: b.Start, End: b.End, Epochs: len(p.owners.tenures), Watermark: p.settled.watermark.String(),
		Judged: map[events.Input]int64{}, NotYet: map[events.Input]int64{}}
	if t := p.owners.current(); t != nil {
		e.Owner, e.Epoch = t.owner, t.epoch.String()
	}
	return e
}

// finish does the checks at the end of the log.
func (p *partition) finish(b Bounds) error {
	p.explainEnd()
	if c := p.carry; c != nil && c.first {
		p.wrong(CheckFold, "cut", p.place(b.End), "the log ends within the carry with which it begins: the state is not complete")
	}
	owner := extentOf(p, b)
	for in, j := range p.inputs {
		j.missing(p)
		n, err := p.unjudged(j)
		if err != nil {
			return err
		}
		owner.Judged[in], owner.NotYet[in] = j.judged, n
	}
	for _, s := range p.live {
		p.rest(s)
		p.ledgerTask(s, p.place(s.at))
	}
	for id := range p.ended {
		forget(p, id)
	}
	for in := range p.dead {
		p.restDead(in)
	}
	p.check.settled[p.number] = p.settled
	var err error
	owner.Hash, err = p.fold.finish(b.End)
	p.extents = append(p.extents, owner)
	return err
}
