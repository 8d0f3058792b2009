package model

import (
	"encoding/binary"
	"fmt"
	"strings"
	"time"

	"github.com/sagalog/sagalog/events"
)

// Search tries everything that may happen in the worlds of a configuration, shortest paths first.
type Search struct {
	Config Config
	// Breaks, if set, is a substring of the violation to look for. Other violations are ignored, and the search continues.
	Breaks string
	// MaxStates bounds the worlds of a search; reaching it is an error, because the search is then not exhaustive. Zero
	// means no bound.
	MaxStates int
	// MaxDepth bounds the length of paths. Zero means no bound.
	MaxDepth int
}

// Report is what a search found.
type Report struct {
	Name string
	// States counts the distinct worlds, Transitions the actions that led to any of them, Quiet the worlds in which nothing is
	// under way, and Depth the actions on the longest of the shortest paths.
	States, Transitions, Quiet, Depth int
	// Ran counts the events that a real owner processed; all others were answered from memory.
	Ran  int
	Took time.Duration
	// Violation is the first violation found. Path is one of the shortest paths to it, and Steps is the length of that
	// path.
	Violation string
	Steps     int
	Path      []string
	// Exhausted says that every world was found.
	Exhausted bool
	// Idle lists the budgets of the configuration that no world has used up: the fault did not occur as often as the budget
	// allows.
	Idle []Budget
	// Logs counts the distinct logs that end with an accepted fact, by the name of the fact. A name that is missing never happened.
	Logs map[events.Name]int
	// Livelocks counts the worlds from which the actions under way never lead to rest.
	Livelocks int
}

// String returns a line for people, and the path to the violation.
func (r *Report) String() string {
	text := fmt.Sprintf("%-28s %9d states %10d transitions %3d deep %7d at rest, %6d events run, %s",
		r.Name, r.States, r.Transitions, r.Depth, r.Quiet, r.Ran, r.Took.Round(time.Millisecond))
	if r.Violation != "" {
		text += fmt.Sprintf("\nbreaks after %d steps: %s\n%s", r.Steps, r.Violation, strings.Join(r.Path, "\n"))
	}
	return text
}

// graph holds the worlds that were found, numbered in the order in which they were found.
type graph struct {
	prints []print
	// parent and by are the world and the action (its index in Enabled) that first led to each world.
	parent []uint32
	by     []uint16
	depth  []uint16
	// slots finds a world by its fingerprint.
	slots []uint32
	// edges are the worlds that progress leads to from each world; first is the index of the first edge of each.
	edges []uint32
	first []uint32
	quiet []bool
}

const noParent = ^uint32(0)

// add returns the number of a world, and whether it is new.
func (g *graph) add(p print, parent uint32, by int, depth uint16) (uint32, bool) {
	if 3*len(g.prints) >= 2*len(g.slots) {
		g.grow()
	}
	mask := uint64(len(g.slots) - 1)
	for i := binary.LittleEndian.Uint64(p[:]) & mask; ; i = (i + 1) & mask {
		n := g.slots[i]
		if n == 0 {
			g.prints, g.parent, g.by, g.depth = append(g.prints, p), append(g.parent, parent), append(g.by, uint16(by)), append(g.depth, depth)
			g.slots[i] = uint32(len(g.prints))
			return uint32(len(g.prints) - 1), true
		}
		if g.prints[n-1] == p {
			return n - 1, false
		}
	}
}

func (g *graph) grow() {
	g.slots = make([]uint32, max(1<<12, 2*len(g.slots)))
	mask := uint64(len(g.slots) - 1)
	for n, p := range g.prints {
		i := binary.LittleEndian.Uint64(p[:]) & mask
		for g.slots[i] != 0 {
			i = (i + 1) & mask
		}
		g.slots[i] = uint32(n + 1)
	}
}

// Run searches. It is a function of the configuration.
func (s Search) Run() *Report {
	began := time.Now()
	root := New(s.Config)
	root.noting = false
	r := &Report{Name: root.sp.cfg.Name}
	g := &graph{}
	first := root.s.encode(nil)
	g.add(printOf(first), noParent, 0, 0)
	frontier, n := [][]byte{first}, uint32(0)
	var most [budgets]uint8
	for depth := 0; len(frontier) > 0 && r.Violation == "" && (s.MaxDepth == 0 || depth < s.MaxDepth); depth++ {
		var next [][]byte
		for i, b := range frontier {
			frontier[i] = nil
			w := &World{s: decode(b)}
			w.sp = root.sp.of(w.s)
			for k, used := range w.s.used {
				most[k] = max(most[k], used)
			}
			next = s.expand(w, g, n, b, next, r)
			n++
			if r.Violation != "" || (s.MaxStates > 0 && len(g.prints) > s.MaxStates) {
				frontier = nil
				next = nil
				break
			}
		}
		frontier = next
	}
	r.Exhausted = int(n) == len(g.prints) && r.Violation == ""
	for k := range budgets {
		if b := Budget(k); int(most[k]) < s.Config.Budgets[b] {
			r.Idle = append(r.Idle, b)
		}
	}
	r.Logs, r.Ran = root.sp.logsByFact(), root.sp.ran
	if next := root.sp.next; next != nil {
		for name, n := range next.logsByFact() {
			r.Logs[name] += n
		}
		r.Ran += next.ran
	}
	r.States, r.Took = len(g.prints), time.Since(began)
	r.Depth = int(g.depth[len(g.depth)-1])
	if r.Exhausted {
		s.rest(g, r)
	}
	r.Took = time.Since(began)
	return r
}

// expand finds the worlds that the world with the given number and bytes leads to.
func (s Search) expand(w *World, g *graph, n uint32, b []byte, next [][]byte, r *Report) [][]byte {
	g.first = append(g.first, uint32(len(g.edges)))
	actions := w.Enabled()
	quiet := true
	for i, a := range actions {
		quiet = quiet && !a.Progress
		w := &World{sp: w.sp, s: decode(b), breaks: s.Breaks}
		w.do(a)
		r.Transitions++
		if w.violation != "" {
			s.found(g, n, i, w.violation, r)
			return next
		}
		bytes := w.s.encode(nil)
		to, fresh := g.add(printOf(bytes), n, i, g.depth[n]+1)
		if fresh {
			next = append(next, bytes)
		}
		if a.Progress {
			g.edges = append(g.edges, to)
		}
	}
	g.quiet = append(g.quiet, quiet)
	if quiet {
		r.Quiet++
		if owes := w.Rest(); owes != "" && s.wanted(owes) {
			s.found(g, n, -1, owes, r)
		}
	}
	return next
}

func (s Search) wanted(violation string) bool { return strings.Contains(violation, s.Breaks) }

// found replays the path to a violation from the beginning, and keeps its description.
func (s Search) found(g *graph, n uint32, last int, violation string, r *Report) {
	r.Violation = violation
	var way []int
	if last >= 0 {
		way = append(way, last)
	}
	for ; g.parent[n] != noParent; n = g.parent[n] {
		way = append(way, int(g.by[n]))
	}
	r.Steps = len(way)
	w := New(s.Config)
	w.breaks = s.Breaks
	for i := len(way) - 1; i >= 0; i-- {
		w.Step(w.Enabled()[way[i]])
	}
	r.Path = w.Path()
}

// rest finds the worlds from which no sequence of actions under way leads to a quiet one.
func (s Search) rest(g *graph, r *Report) {
	n := len(g.prints)
	good := append([]bool(nil), g.quiet...)
	g.first = append(g.first, uint32(len(g.edges)))
	for changed := true; changed; {
		changed = false
		for i := n - 1; i >= 0; i-- {
			if good[i] {
				continue
			}
			for _, to := range g.edges[g.first[i]:g.first[i+1]] {
				if good[to] {
					good[i], changed = true, true
					break
				}
			}
		}
	}
	const livelock = "livelock: from here no action under way leads to rest"
	for i := range good {
		if good[i] {
			continue
		}
		if r.Livelocks++; r.Livelocks == 1 && s.wanted(livelock) {
			s.found(g, uint32(i), -1, livelock, r)
		}
	}
}
