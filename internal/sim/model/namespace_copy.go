package model

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/namespacecopy"
	"github.com/sagalog/sagalog/internal/sim"
	"github.com/sagalog/sagalog/scheduler"
)

// The namespace is copied into one with another number of partitions, by the code of `sagalog namespace copy`. The copier folds each log, and closes
// one partition after the other: it claims it, reads that back, and closes it; nodes read and write in between. When all partitions are closed, it
// writes the copy in one action, because nothing that it reads changes by then except that late inputs land: these come before the action, or are
// lost. Then the world goes on in the copy, with a new node and an empty store. The old nodes are left behind, since they reach nothing there; as long as
// the copy is not written, they may do whatever they can. Old agents may still report, to the copy, if Repeats has a budget.
//
// If the log is lost instead, the copy is made from checkpoints, in one action: all nodes are gone, and nothing is closed.

// copyRun is a copy under way.
type copyRun struct {
	stage copyStage
	// part is the partition that is closed next, and landed counts the records for it that have landed.
	part, landed uint8
	// tries counts how often the copier has begun, and clock is when it did last.
	tries, clock uint8
	// logs are the logs as it has folded them.
	logs []int32
}

type copyStage = uint8

const (
	// copyNone: nobody has begun a copy. copyClaims: a partition is claimed next. copyReads: the claim has landed, and is read back. copyCloses: it was
	// current, and the partition is closed next. copyChecks: the records for that have landed, and are read back.
	copyNone   copyStage = 0
	copyClaims copyStage = 1
	copyReads  copyStage = 2
	copyCloses copyStage = 3
	copyChecks copyStage = 4
	// copyWrites: all partitions are closed. copyAgain: the copier died, or a node has claimed a partition meanwhile, so it begins again.
	copyWrites copyStage = 5
	copyAgain  copyStage = 6
)

// triesMax is more often than a copier can fail because of the claims of nodes.
const triesMax = 6

// of returns the space of a state's namespace.
func (s *space) of(x *state) *space {
	if !x.copied {
		return s
	}
	return s.copy()
}

// copy returns the space of the copy.
func (s *space) copy() *space {
	if s.next == nil {
		s.next = newSpace(s.cfg.inCopy())
	}
	return s.next
}

// listCopies lists what may happen about a copy.
func listCopies(w *World, list []Action) []Action {
	if w.s.copied || w.sp.cfg.Copy == 0 {
		return list
	}
	progress := map[copyStage]actionKind{copyClaims: actCopyClaim, copyReads: actCopyRead, copyCloses: actCopyLand, copyChecks: actCopyCheck, copyWrites: actCopy, copyAgain: actCopyBegin}
	if kind, is := progress[w.s.copier.stage]; is {
		list = append(list, Action{kind: kind, Progress: true})
		if kind == actCopyLand && w.s.copier.landed == 0 && w.left(Splits) && len(closing(w)) > 1 {
			list = append(list, Action{kind: actCopyPart})
		}
		if w.left(CopierCrashes) && w.s.copier.stage != copyAgain {
			list = append(list, Action{kind: actCopierCrash})
		}
		return list
	}
	if w.left(Copies) {
		list = append(list, Action{kind: actCopyBegin})
	}
	for p := range w.sp.cfg.Full {
		if w.left(Checkpoints) && storeOf(w, p).Next() > 0 {
			list = append(list, Action{kind: actCheckpoint, node: int16(p)})
		}
	}
	if w.left(Losses) && len(w.s.checkpoints) == int(w.sp.cfg.Full) && !slices.Contains(w.s.checkpoints, 0) {
		list = append(list, Action{kind: actLoseLog})
	}
	return list
}

func nameCopy(w *World, a Action) string {
	switch a.kind {
	case actCopyBegin:
		return "the copier folds the logs"
	case actCopyClaim:
		return fmt.Sprintf("the copier claims partition %d", w.s.copier.part)
	case actCopyRead:
		return fmt.Sprintf("the copier reads back whether its claim of partition %d is current", w.s.copier.part)
	case actCopyLand:
		return fmt.Sprintf("the copier closes partition %d: %s", w.s.copier.part, w.sp.describeAll(closing(w)[w.s.copier.landed:]))
	case actCopyPart:
		return fmt.Sprintf("the first record of the copier lands in partition %d", w.s.copier.part)
	case actCopyCheck:
		return fmt.Sprintf("the copier reads back whether partition %d is closed", w.s.copier.part)
	case actCopy:
		return "the copier writes the copy"
	case actCopierCrash:
		return "the copier dies"
	case actCheckpoint:
		return fmt.Sprintf("a checkpoint is made of partition %d, up to %d", a.node, storeOf(w, int32(a.node)).Next())
	}
	return "the log is lost, and the namespace is copied from checkpoints"
}

func doCopy(w *World, a Action) {
	c := &w.s.copier
	switch a.kind {
	case actCopyBegin:
		if c.stage == copyNone {
			w.s.used[Copies]++
		}
		*c = copyRun{stage: copyClaims, tries: c.tries + 1, clock: w.s.clock}
		for p := range w.sp.cfg.Full {
			c.logs = append(c.logs, w.s.parts[p].log)
		}
		if c.tries > triesMax {
			w.fail("livelock: the copier begins again and again")
		}
		if w.sp.cfg.Stops {
			copyStopped(w)
		}
	case actCopyClaim:
		claimToClose(w)
		if c.tries > 1 { // otherwise an owner and the copier could depose each other without end
			checkClaim(w)
			closePart(w)
		}
	case actCopyRead:
		checkClaim(w)
	case actCopyLand:
		closePart(w)
	case actCopyPart:
		w.land(int32(c.part), closing(w)[:1])
		c.landed = 1
	case actCopyCheck:
		checkClosed(w)
	case actCopierCrash:
		*c = copyRun{stage: copyAgain, tries: c.tries}
	case actCopy:
		copyLog(w)
	case actCheckpoint:
		if w.s.checkpoints == nil {
			w.s.checkpoints = make([]int32, w.sp.cfg.Full)
		}
		w.s.checkpoints[a.node] = w.sp.take(storeOf(w, int32(a.node)))
	case actLoseLog:
		copyCheckpoints(w)
	}
}

// stateToClose returns the partition that is closed next, as the copier has folded it.
func stateToClose(w *World) *events.State {
	return copyOf(&w.sp.copies, w.sp.logs[w.s.copier.logs[w.s.copier.part]].state)
}

// claimToClose lands the claim of the copier, which has folded the log some time before, or now if it failed already.
func claimToClose(w *World) {
	c := &w.s.copier
	if c.tries > 1 {
		c.logs[c.part] = w.s.parts[c.part].log
	}
	r, err := namespacecopy.Claiming(stateToClose(w), c.claim(), "model", w.sp.cfg.at(c.clock))
	if err != nil {
		panic(fmt.Sprintf("model: a partition cannot be claimed: %v", err))
	}
	w.land(int32(c.part), w.sp.internRecords([]events.Record{r}))
	c.stage = copyReads
}

// checkClaim reads back the claim.
func checkClaim(w *World) {
	c := &w.s.copier
	c.logs[c.part] = w.s.parts[c.part].log
	if c.stage = copyCloses; !namespacecopy.Claimed(stateToClose(w), c.claim()) {
		beginAgain(w)
	}
}

// closing returns the records with which the copier closes the partition that it has claimed.
func closing(w *World) []int32 {
	records, err := namespacecopy.Closing(stateToClose(w), "model", w.sp.cfg.at(w.s.copier.clock))
	if err != nil {
		panic(fmt.Sprintf("model: a partition cannot be closed: %v", err))
	}
	return w.sp.internRecords(records)
}

func closePart(w *World) {
	c := &w.s.copier
	if c.stage == copyCloses {
		w.land(int32(c.part), closing(w)[c.landed:])
		c.stage = copyChecks
	}
}

// copyStopped copies the namespace while no node runs. Whatever they have in flight has landed before, or is lost.
func copyStopped(w *World) {
	for w.s.copier.stage == copyClaims && w.violation == "" {
		claimToClose(w)
		checkClaim(w)
		closePart(w)
		checkClosed(w)
	}
	if w.s.copier.stage != copyWrites {
		w.fail("the namespace cannot be closed, although no node runs")
		return
	}
	copyLog(w)
}

func beginAgain(w *World) {
	c := &w.s.copier
	w.note("the owner is %s: the copier begins again", w.sp.logs[w.s.parts[c.part].log].state.Partition.Owner)
	*c = copyRun{stage: copyAgain, tries: c.tries}
}

func (c *copyRun) claim() string { return fmt.Sprintf("copier-%d", c.tries) }

// checkClosed reads back what the copier has written. If somebody else has claimed the partition, the copier begins again.
func checkClosed(w *World) {
	c := &w.s.copier
	state := w.sp.logs[w.s.parts[c.part].log].state
	if !namespacecopy.Closed(state, c.claim()) {
		beginAgain(w)
		return
	}
	c.part, c.landed, c.stage = c.part+1, 0, copyClaims
	if int(c.part) == len(c.logs) {
		c.stage, c.logs = copyWrites, nil
	}
}

// storeOf returns the store of the node that the group has chosen.
func storeOf(w *World, p int32) *sim.Store {
	n := int(w.s.parts[p].group)*int(w.sp.cfg.Full) + int(p)
	return w.sp.slots[w.s.nodes[n].slot].store
}

// take numbers a checkpoint, from 1.
func (s *space) take(store *sim.Store) int32 {
	p := s.storePrint(store)
	if id, ok := s.takenIDs[p]; ok {
		return id
	}
	s.taken = append(s.taken, store)
	s.takenIDs[p] = int32(len(s.taken))
	return s.takenIDs[p]
}

// source is an old partition as a copier knows it: its store, and the records of its log below next.
type source struct {
	store *sim.Store
	log   *logNode
	next  int64
}

// copyLog copies the namespace that is closed.
func copyLog(w *World) {
	var from []source
	for p := range w.sp.cfg.Full {
		l := w.sp.logs[w.s.parts[p].log]
		if l.state.Partition.Closed == nil {
			w.fail("partition %d is copied, and is not closed", p)
			return
		}
		from = append(from, source{w.sp.folded(p, w.s.parts[p].log), l, l.end()})
	}
	copyFrom(w, from, false)
}

// copyCheckpoints copies the namespace whose log is lost.
func copyCheckpoints(w *World) {
	var from []source
	for p, id := range w.s.checkpoints {
		store := w.sp.taken[id-1]
		from = append(from, source{store, w.sp.logs[w.s.parts[p].log], store.Next()})
	}
	copyFrom(w, from, true)
}

// folded folds a log into a store.
func (s *space) folded(part, log int32) *sim.Store {
	if store := s.stored[log]; store != nil {
		return store
	}
	state := events.NewState(part, nil)
	state.SetLevel(newerLevel)
	state.SetLax(s.lax())
	store := sim.NewStore()
	for i, r := range s.logs[log].records {
		if _, err := state.Apply(s.bodies[r], int64(i)); err != nil {
			panic(fmt.Sprintf("model: a log cannot be folded a second time: %v", err))
		}
	}
	d, err := state.Flush(nil)
	if err == nil {
		err = store.Apply(d, events.Record{Offset: d.Next - 1})
	}
	if err != nil {
		panic(fmt.Sprintf("model: a log cannot be stored: %v", err))
	}
	s.stored[log] = store
	return store
}

func opened(part int32, store *sim.Store) *events.State {
	snap, err := store.Snapshot()
	if err == nil {
		var state *events.State
		if state, err = events.OpenStateAt(newerLevel, part, snap, store.Load); err == nil {
			return state
		}
	}
	panic(fmt.Sprintf("model: a store cannot be opened: %v", err))
}

// oldDefinitions are the definitions of the old namespace: nothing but its creation. What partitions have adopted is in their states.
func oldDefinitions(w *World) []events.Record {
	r, err := scheduler.EncodeNamespace(scheduler.Namespace{ID: namespaceID.String(), Partitions: w.sp.cfg.Partitions, Format: events.FormatVersion},
		events.Subject{ID: "created", Source: "/model", Time: Begin})
	if err != nil {
		panic(err)
	}
	return []events.Record{r}
}

// copyFrom makes the copy, and lets the world go on in it.
func copyFrom(w *World, from []source, lost bool) {
	x := namespacecopy.Partitions{
		From: "model", To: "model", ID: namespaceID.String(), New: w.sp.cfg.Copy, Lost: lost, Epoch: "copy", Made: w.sp.cfg.at(w.s.clock).Time(),
		Scheduler: &process{Process: sim.NewProcess()}, Definitions: oldDefinitions(w),
	}
	for p, y := range from {
		x.Old = append(x.Old, namespacecopy.Partition{State: opened(int32(p), y.store), Stored: y.store})
	}
	key := copyKey(w, from, lost)
	made := w.sp.made[key]
	if made == nil || w.noting {
		l := newCopyLogs(w, from)
		if _, err := x.Copy(context.Background(), l); err != nil {
			w.fail("the namespace cannot be copied: %v", err)
		}
		if w.violation == "" {
			judgeCopy(w, l, lost)
		}
		if w.violation != "" {
			return
		}
		made = &copied{l.parts, l.works}
		w.sp.made[key] = made
	}
	spend(w, from)
	origin, old := w.sp, w.s
	w.sp, w.s = origin.copy(), &state{clock: old.clock, used: old.used, times: old.times, held: old.held, copied: true}
	for _, p := range made.parts {
		for i := range p.inputs {
			p.inputs[i] = slices.Clone(p.inputs[i])
		}
		w.s.parts = append(w.s.parts, p)
	}
	inherit(w, origin, old.works, made.works)
	bootNodes(w)
	for p := range w.sp.cfg.Full {
		w.replica(int(p)).learn()
	}
}

// copied is what a copier has written: the partitions, and the requests in the topics of agents.
type copied struct {
	parts []part
	works []int32
}

// copyKey names everything that a copy reads.
func copyKey(w *World, from []source, lost bool) string {
	s := state{clock: w.s.clock, parts: w.s.parts, copied: lost}
	for _, y := range from {
		s.checkpoints = append(s.checkpoints, w.sp.take(y.store), int32(y.next))
	}
	return string(s.encode(nil))
}

// spend notes the incarnations of all tasks that were ever accepted in the old namespace.
func spend(w *World, from []source) {
	to := w.sp.copy()
	for _, y := range from {
		y.log.accepted(w.sp, func(f *events.Fact) bool {
			if f.Body.Name() == events.NameSubmitted && !slices.Contains(to.spent, f.Position().String()) {
				to.spent = append(to.spent, f.Position().String())
			}
			return true
		})
	}
}

// inherit gives the agents of the copy what the copier sent, and leaves the agents of the old namespace what they have.
func inherit(w *World, from *space, old []work, sent []int32) {
	for i := range old {
		x := &old[i]
		e := from.effects[x.effect]
		id := w.sp.internOld(e)
		checkKeys(w, id)
		w.s.works = append(w.s.works, work{debt: w.sp.debt(e.fact, e.kind), effect: id, reports: x.reports, sent: x.sent, old: true})
	}
	for _, id := range sent {
		checkKeys(w, id)
		w.s.works = append(w.s.works, work{debt: w.sp.debt(w.sp.effects[id].fact, events.EffectWork), effect: id})
	}
	if !w.left(Repeats) {
		w.s.works = slices.DeleteFunc(w.s.works, func(x work) bool { return x.old })
	}
}

// internOld numbers an effect of the old namespace.
func (s *space) internOld(e effect) int32 {
	p := recordPrint(&e.record, e.kind, e.topic, "old")
	if id, ok := s.effectIDs[p]; ok {
		return id
	}
	id := int32(len(s.effects))
	s.effects = append(s.effects, e)
	s.effectIDs[p] = id
	return id
}

// inherited returns the facts that the judges of a copy know of the old namespace, and the tasks whose cancel was held when they were accepted.
func inherited(sp *space, from []source) (facts []*events.Fact, cancelled []string, key string) {
	var text strings.Builder
	for _, y := range from {
		for i, r := range y.log.records[:y.next] {
			f := sp.bodies[r]
			switch f.Body.(type) {
			case *events.PartitionClaimed, *events.NamespaceClosed, *events.CarryBegun, *events.EntityCarried, *events.CarryEnded, *events.InputsPassed:
				continue
			}
			if y.log.verdicts[i] != events.FateAccepted {
				continue
			}
			x := *f
			x.Cause = ""
			facts = append(facts, &x)
			fmt.Fprint(&text, r, " ")
		}
		cancelled = append(cancelled, y.log.cancelled...)
	}
	fmt.Fprint(&text, cancelled)
	return facts, cancelled, text.String()
}
