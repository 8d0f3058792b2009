package whatif

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/virtualowner"
	"github.com/sagalog/sagalog/scheduler"
	"github.com/sagalog/sagalog/supervisor"
)

// never is the start of an attempt that does not start.
const never = events.Instant(1<<63 - 1)

// near is how far an attempt may be from where history has it, and still be the same attempt. Beyond, the service may have been in another state: the
// answer is drawn from what it gave to others then. Outages last longer than this, and scheduling differs by less.
const near = time.Second

// maxMoves bounds how often the time of a replay moves: an attempt takes about two. One task that is retried for days must not hold up all others.
const maxMoves = 100_000

// replayer replays tasks, one at a time.
type replayer struct {
	sched *scheduler.Scheduler
	// moves is maxMoves, or less in tests.
	moves int
}

func newReplayer(cfg *Config) *replayer {
	return &replayer{sched: scheduler.New(), moves: cmp.Or(cfg.moves, maxMoves)}
}

// playing is a replay under way. The owner decides; this plays the agents and moves the time.
type playing struct {
	*virtualowner.Engine
	trace *Trace
	sched *scheduler.Scheduler
	// draw gives the answers that history does not have. It is nil if there are to be none: the task is replayed under its own policy.
	draw     *drawing
	recorded map[key]*Attempt
	plans    map[key]*planned
	pending  []*planned
	acts     []Act
	// open are the offers of the agents when they take work, and closed those when they do not.
	open, closed map[string]supervisor.Offer
	// timer is when the next timer of the task is due, as of the last look; 0 if it has none.
	timer events.Instant
	out   *Played
}

// planned is an attempt that was ready once.
type planned struct {
	key
	call events.Call
	// start is when the agent takes it, and lasts how long the answer takes from then on. drawn says that history does not have it.
	start  events.Instant
	lasts  time.Duration
	answer Answer
	drawn  bool
	// work is set when it has started, at since. beat is when it shows progress next, if it has to.
	work        *events.Work
	since, beat events.Instant
	answered    bool
}

// ends is when the agent answers; of an attempt that is silent, when it shows progress for the last time.
func (a *planned) ends() events.Instant { return a.since.Add(a.lasts) }

// replay plays a task. draw is nil for a replay with the answers of history alone.
func (r *replayer) replay(t *Trace, p *policy, draw *drawing) (*Played, error) {
	width := virtualowner.Width(p.definition)
	x := &playing{
		trace: t, sched: r.sched, draw: draw, recorded: map[key]*Attempt{}, plans: map[key]*planned{}, acts: t.Acts,
		open: virtualowner.OffersOf(p.definition, width), closed: map[string]supervisor.Offer{}, out: &Played{Calls: map[string]int{}, Drawn: map[string]int{}},
	}
	for agent, o := range x.open {
		o.Paused = true
		x.closed[agent] = o
	}
	for _, a := range slices.Concat(t.Attempts, t.Held) {
		x.recorded[a.key()] = a
	}
	r.sched.Reset()
	v := p.version
	v.Version = t.Version
	var err error
	x.Engine, err = virtualowner.New(virtualowner.Config{
		Begin: t.Accepted, Version: v, Settings: t.Settings, Limits: p.definition.Limits(), Offers: x.closed, Scheduler: r.sched, Sent: x.sent,
	})
	if err != nil {
		return nil, fmt.Errorf("replay task %q: %w", t.Task, err)
	}
	if err := x.submit(); err != nil {
		return nil, err
	}
	x.play(r.moves)
	if x.Err != nil {
		return nil, fmt.Errorf("replay task %q: %w", t.Task, x.Err)
	}
	return x.out, nil
}

// submit submits the task as it was accepted. What its labels and its priority came from does not matter: they are given.
func (p *playing) submit() error {
	b := p.trace.Submitted
	s := events.Submission{ID: p.trace.Task, Workflow: b.Workflow, Input: b.Input, Labels: b.Labels, Priority: b.Priority}
	if b.NotBefore != 0 {
		s.NotBefore = b.NotBefore.String()
	}
	if b.Deadline != 0 && !p.trace.OwnDeadline {
		s.Deadline = b.Deadline.String()
	}
	raw, err := events.Marshal(s)
	if err != nil {
		return err
	}
	p.Put(events.Submissions, events.Record{Key: []byte(s.ID), Value: raw})
	return nil
}

// play runs until the task ends, is parked, or its end is unknown.
func (p *playing) play(most int) {
	p.settle()
	for moves := 0; p.Err == nil && !p.over(); moves++ {
		next := p.next()
		if next == 0 {
			p.unknown(p.stuck(), nil)
			return
		}
		if moves == most {
			p.unknown(whyLong, nil)
			return
		}
		p.Now = next
		p.deliver()
		if p.timer != 0 && p.timer <= next { // otherwise there are only answers, which need no look at the timers
			p.leave()
			p.Tick()
		}
		p.settle()
	}
}

// stuck says why nothing happens any more.
func (p *playing) stuck() Reason {
	for _, a := range p.pending {
		if a.start == never {
			return whyUnobserved
		}
	}
	return whyStuck
}

// settle starts attempts whose time has come until nothing more happens at this instant.
func (p *playing) settle() {
	for p.Err == nil {
		p.Run()
		if !p.start() {
			return
		}
	}
}

func (p *playing) task() *events.Task {
	t, err := p.State.Task(p.trace.Task)
	if err != nil && p.Err == nil {
		p.Err = err
	}
	return t
}

// over says whether the replay is over, and notes how. A parked task belongs to the operator, and what operators did about parked tasks is not replayed: so
// parked is an end, once no attempt runs.
func (p *playing) over() bool {
	t := p.task()
	switch {
	case p.out.Why != "":
		return true
	case t == nil:
		p.unknown(whyRejected, nil)
		return true
	case t.State.Ended():
		p.out.End, p.out.EndedAt = t.State, t.EndedAt
		return true
	case t.State == events.TaskStateError && len(running(t)) == 0:
		p.out.End, p.out.EndedAt = t.State, t.ParkedAt
		return true
	}
	return false
}

func (p *playing) unknown(why Reason, lacks *events.Call) {
	p.out.Why, p.out.Lacks = why, lacks
}

// running counts the attempts of a task that run, by agent.
func running(t *events.Task) map[string]int {
	n := map[string]int{}
	for _, s := range t.Live() {
		if s.State == events.StepStateRunning && s.Agent != "" {
			n[s.Agent]++
		}
		if u := s.Undo; u != nil && u.State == events.StepStateRunning && u.Agent != "" {
			n[u.Agent]++
		}
	}
	return n
}

// start lets the owner start the ready attempts that their agents take now, and says whether anything happened. The plan is the scheduler's: it is a
// function of the task.
func (p *playing) start() bool {
	t := p.task()
	if t == nil || t.State.Ended() || p.out.Why != "" {
		return false
	}
	plan, err := p.sched.Plan(t)
	if err != nil {
		p.Err = err
		return false
	}
	p.pending = p.pending[:0]
	room := map[string]int{}
	for _, r := range plan.Ready {
		if r.NotBefore > p.Now {
			continue
		}
		a := p.planOf(t, r)
		if a == nil {
			return false
		}
		p.pending = append(p.pending, a)
		if a.start <= p.Now {
			room[r.Agent]++
		}
	}
	if len(room) == 0 {
		return false
	}
	busy, offers := running(t), map[string]supervisor.Offer{}
	for agent, o := range p.open {
		if o.Window, o.Paused = busy[agent]+room[agent], room[agent] == 0; o.Paused {
			o = p.closed[agent]
		}
		offers[agent] = o
	}
	before := len(p.Facts)
	p.Owner.SetOffers(p.Now, offers)
	p.Run()
	p.Owner.SetOffers(p.Now, p.closed)
	return len(p.Facts) > before
}

// planOf returns what becomes of an attempt that is ready, decided when it is ready first. It returns nil if that is unknown.
func (p *playing) planOf(t *events.Task, r events.Ready) *planned {
	k := key{r.Path, r.Operation, attemptOf(t, r)}
	if a := p.plans[k]; a != nil {
		return a
	}
	a := &planned{key: k, call: events.Call{Agent: r.Agent, Function: r.Function, Operation: r.Operation}}
	switch known := p.recorded[k]; {
	case p.draw == nil && known == nil: // it waited for its agent or for a permit until the task ended
		p.trace.Held = append(p.trace.Held, &Attempt{Path: k.path, Operation: k.op, N: k.n, Agent: r.Agent, Function: r.Function, Ready: p.Now})
		a.start = never
	case known != nil && known.Started == 0 && p.Now.Sub(known.Ready).Abs() <= near:
		a.start = never
	case p.draw == nil:
		known.Ready = p.Now
		a.start, a.lasts, a.answer = max(p.Now, known.Started), known.lasted(), known.Answer
		p.out.Taken++
	case known != nil && known.Ended != 0 && known.Ready != 0 && p.Now.Sub(known.Ready).Abs() <= near:
		a.start, a.lasts, a.answer = p.Now.Add(known.Started.Sub(known.Ready)), known.lasted(), known.Answer
		p.out.Taken++
	default:
		if !p.drawn(a) {
			return nil
		}
	}
	p.plans[k] = a
	return a
}

// lasted is how long an attempt took; one without an end takes forever.
func (a *Attempt) lasted() time.Duration {
	if a.Ended == 0 {
		return time.Duration(1<<62 - 1)
	}
	return max(0, a.Ended.Sub(a.Started))
}

// attemptOf returns the number of the attempt that is ready.
func attemptOf(t *events.Task, r events.Ready) int {
	s := t.Step(r.Path)
	switch {
	case s == nil || r.Operation == events.Undo && s.Undo == nil:
		return 1
	case r.Operation == events.Undo:
		return s.Undo.Attempt + 1
	}
	return s.Attempt + 1
}

// drawn fills in an attempt from samples; false if they are too few. If the same operation failed for good in history, it fails like that at any instant.
func (p *playing) drawn(a *planned) bool {
	failed, completes := answers(p.trace, a.key)
	if failed != nil {
		a.start, a.lasts, a.answer = p.Now, failed.lasted(), failed.Answer
		p.out.Taken++
		return true
	}
	c := p.draw.samples.near(a.call, a.n, p.Now)
	if len(c.from) == 0 {
		p.unknown(whyFew, &a.call)
		return false
	}
	if completes {
		c.forGood = 0
	}
	x := p.draw.pick(c, p.trace.Task, a.key)
	a.start, a.drawn = p.Now.Add(x.queue), true
	p.fill(a, x)
	p.out.Drawn[a.call.Agent]++
	return true
}

func (p *playing) fill(a *planned, x *sample) {
	a.lasts, a.answer = x.lasted, x.answer
	if x.answer.Result == Completed {
		a.answer.Output = p.draw.output(p.trace, a.key, a.call, x)
	}
}

// sent takes the work requests of the owner.
func (p *playing) sent(s supervisor.Send) error {
	if s.Kind != events.EffectWork {
		return nil
	}
	w, _, err := events.DecodeWork(&s.Record)
	if err != nil {
		return err
	}
	a := p.plans[key{w.Step, w.Operation, w.Attempt}]
	if a == nil || a.work != nil {
		return fmt.Errorf("attempt %d to %s step %q was sent, and was not ready", w.Attempt, w.Operation, w.Step)
	}
	a.work, a.since = &w, p.Now
	p.out.Calls[a.call.Agent]++
	p.uncensor(a)
	if w.Heartbeat > 0 {
		a.beat = p.Now.Add(w.Heartbeat.Std() / 2)
	}
	return nil
}

// slack is by how much a time-out may come later than the log has it, and still be the same.
const slack = time.Second

// uncensor replaces the silence of an attempt that may take longer now than when it timed out. What would have come is not in the log, but what came to
// attempts that took longer than that is, if there are any.
func (p *playing) uncensor(a *planned) {
	if p.draw == nil || a.answer.Result != Silent || a.work.Heartbeat > 0 || a.work.CompleteBy.Sub(p.Now) <= a.lasts+slack {
		return
	}
	c := p.draw.samples.near(a.call, a.n, p.Now)
	if c.from = longer(c.from, a.lasts+slack); len(c.from) == 0 {
		p.unknown(whyCensored, &a.call)
		return
	}
	if !a.drawn {
		a.drawn = true
		p.out.Taken--
		p.out.Drawn[a.call.Agent]++
	}
	p.fill(a, p.draw.pick(c, p.trace.Task, a.key))
}

// deliver puts the answers and the acts whose time has come into the inputs.
func (p *playing) deliver() {
	for len(p.acts) > 0 && p.acts[0].At <= p.Now {
		q := p.acts[0].Request
		p.acts, q.Task = p.acts[1:], p.trace.Task
		r, err := events.EncodeRequest(q, events.Subject{ID: q.ID, Source: "/whatif", Time: p.Now})
		p.put(r, err)
	}
	for _, a := range p.sorted() {
		if a.beat != 0 && a.beat <= p.Now && a.beat < a.lastBeat() {
			p.report(a, events.Report{Result: events.ResultProgress})
			a.beat = p.Now.Add(a.work.Heartbeat.Std() / 2)
		}
		if a.answer.Result == Silent || a.ends() > p.Now {
			continue
		}
		a.answered = true
		b := a.answer
		p.report(a, events.Report{Result: events.Result(b.Result), Output: b.Output, Error: b.Error, Effect: b.Effect, RetryAfter: b.RetryAfter})
	}
}

// lastBeat is when the attempt shows progress for the last time: of one that timed out, a heartbeat before.
func (a *planned) lastBeat() events.Instant {
	if a.answer.Result == Silent {
		return a.ends().Add(-a.work.Heartbeat.Std())
	}
	return a.ends()
}

func (p *playing) report(a *planned, r events.Report) {
	r.Task, r.Run, r.Step, r.Operation, r.Attempt, r.Ticket, r.Instance = p.trace.Task, a.work.Run, a.path, a.op, a.n, a.work.Ticket, "whatif"
	id := a.path + "/" + string(a.op) + "/" + strconv.Itoa(a.n) + "/" + p.Now.String()
	rec, err := events.EncodeReport(r, events.Subject{ID: id, Source: "/whatif", Time: p.Now})
	p.put(rec, err)
}

func (p *playing) put(r events.Record, err error) {
	if err != nil {
		p.Err = err
		return
	}
	p.Put(events.Reports, r)
}

// leave takes the offers of agents away whose attempt times out now and did not count in history, because they had left.
func (p *playing) leave() {
	t := p.task()
	var left []string
	for _, a := range p.plans {
		if t != nil && a.work != nil && a.answer.Gone && a.work.CompleteBy <= p.Now && t.Running(a.path, a.op, a.n) {
			left = append(left, a.call.Agent)
		}
	}
	if left == nil {
		return
	}
	gone := maps.Clone(p.closed)
	for _, agent := range left {
		delete(gone, agent)
	}
	p.Owner.SetOffers(p.Now, gone)
}
