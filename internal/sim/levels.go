package sim

import (
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/supervisor"
)

const (
	// olderBuild and newerBuild are the highest levels that the builds of nodes understand.
	olderBuild = events.FirstLevel
	newerBuild = olderBuild + 1
	// MaxLevel is the highest level of a simulated log.
	MaxLevel = newerBuild
	// newerWorkflow is the workflow whose definition needs newerBuild, if there are two builds.
	newerWorkflow = "late"
)

// levels simulates a rolling upgrade: nodes are replaced by those of a newer build, and an operator raises the level of the
// namespace. That is refused while an older node is heard; one that is paused or cut off is not heard, and lives on.
type levels struct {
	w *World
	// builds is the highest level that each node understands.
	builds []int
	// level is the namespace's level.
	level int
}

func newLevels(w *World) *levels {
	l := &levels{w: w, level: olderBuild}
	for range w.opt.Nodes {
		build := newerBuild
		if w.faults.Levels > 0 && w.rng.IntN(3) > 0 {
			build = olderBuild
		}
		l.builds = append(l.builds, build)
	}
	return l
}

// on says whether the run has two builds.
func (l *levels) on() bool { return l.w.opt.Faults.Levels > 0 }

// change upgrades a node, or the namespace.
func (l *levels) change() {
	if l.w.rng.IntN(2) == 0 {
		l.upgrade(l.w.nodes[l.w.rng.IntN(len(l.w.nodes))])
	} else {
		l.raise()
	}
}

// upgrade replaces a node's process by one of the newer build.
func (l *levels) upgrade(n *node) {
	if !n.up || l.builds[n.index] == newerBuild {
		return
	}
	n.crash(9) // its store is kept
	l.builds[n.index] = newerBuild
	l.w.note("%s is upgraded", n.name)
	l.w.after(100+l.w.rng.IntN(4000), func() {
		if !n.up {
			n.restart()
		}
	})
}

// raise is `namespace upgrade`.
func (l *levels) raise() {
	newer := false
	for i, n := range l.w.nodes {
		newer = newer || l.builds[i] == newerBuild
		cutOff := n.paused || l.w.rng.IntN(3) == 0
		if n.up && l.builds[i] < newerBuild && !cutOff {
			l.w.saw(sawLevelRefused)
			return
		}
	}
	if !newer || l.level == newerBuild {
		return
	}
	l.level = newerBuild
	l.w.note("the namespace has level %d", l.level)
	for _, n := range l.w.nodes {
		l.w.settings.publishTo(n, l.w.rng.IntN(15_000))
	}
}

// allows says whether a definition may be applied.
func (l *levels) allows(v *supervisor.Version) bool {
	return !l.on() || v.Workflow != newerWorkflow || l.level == newerBuild
}

// published is the definitions topic of a world: the definitions, the level and the settings of the namespace.
type published struct {
	Catalog
	level  int
	latest events.Settings
	offset int64
}

// Level implements supervisor.Catalog.
func (c published) Level() int { return c.level }

// Settings implements supervisor.Catalog.
func (c published) Settings() (events.Settings, int64) { return c.latest, c.offset }

// catalog returns the definitions topic as of now.
func (l *levels) catalog() supervisor.Catalog {
	c := catalog(l.w.catalogEnd)
	latest, offset := l.w.settings.last()
	if !l.on() {
		return published{c, c.Level(), latest, offset}
	}
	c = append(Catalog{}, c...)
	for i := range c {
		if c[i].Workflow == newerWorkflow {
			c[i].Level = newerBuild
		}
	}
	return published{c, l.level, latest, offset}
}

// stops makes an owner give up its partition because its build is too old. The group gives the partition to a node of the newer
// build.
func (l *levels) stops(s *slot) {
	w, p := l.w, int(s.part.id)
	w.saw(sawTooOld)
	w.note("%s/%d is too old for the namespace", s.node.name, p)
	w.after(w.rng.IntN(2000), func() {
		if w.group[p] != s.node.index || l.builds[s.node.index] == newerBuild {
			return
		}
		s.node.assign(p, false)
		l.toNewer(p)
		w.nodes[w.group[p]].assign(p, true)
	})
}

// toNewer assigns the partition to a node of the newer build.
func (l *levels) toNewer(p int) {
	for l.w.group[p] = l.w.rng.IntN(len(l.w.nodes)); l.builds[l.w.group[p]] < newerBuild; {
		l.w.group[p] = (l.w.group[p] + 1) % len(l.w.nodes)
	}
}

// heal makes every node below the level leave the group.
func (l *levels) heal() {
	for p, n := range l.w.group {
		if l.builds[n] < l.level {
			l.toNewer(p)
		}
	}
}

// judge checks an accepted fact before it is folded.
func (l *levels) judge(p *partition, f *events.Fact) {
	switch b := f.Body.(type) {
	case *events.PartitionClaimed:
		l.claims(p, b)
	case *events.VersionBarrier:
		l.raises(p, b)
	case *events.DefinitionAdopted:
		l.adopts(p, b)
	}
}

// claims checks that no node below the barrier owns the partition.
func (l *levels) claims(p *partition, c *events.PartitionClaimed) {
	if c.Reader < p.barrier {
		l.w.fail("INV11: %s owns partition %d with a build of level %d, behind the barrier %d", c.Owner, p.id, c.Reader, p.barrier)
	}
	p.reader = c.Reader
}

// raises checks a barrier.
func (l *levels) raises(p *partition, b *events.VersionBarrier) {
	if b.Reader > l.level || b.Reader > p.reader || b.Reader <= p.barrier {
		l.w.fail("partition %d gets the barrier %d after %d; its owner understands %d, and the namespace has level %d", p.id, b.Reader, p.barrier, p.reader, l.level)
	}
	p.barrier = b.Reader
	l.w.saw(sawBarrier)
}

// adopts checks that a definition is adopted after the barrier that it needs.
func (l *levels) adopts(p *partition, b *events.DefinitionAdopted) {
	if l.on() && b.Workflow == newerWorkflow && p.barrier < newerBuild {
		l.w.fail("partition %d adopts a definition of level %d with the barrier %d", p.id, newerBuild, p.barrier)
	}
}
