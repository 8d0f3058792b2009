package scheduler

import (
	"maps"
	"slices"
	"strings"
)

// graph is the DAG of a workflow's steps: for each step the steps that it needs.
type graph map[string][]string

// order returns the steps so that each comes after the steps that it needs, and sorts them by ID if that leaves a
// choice. If there are cycles, ok is false, and their steps and those behind them are missing.
func (g graph) order() (ids []string, ok bool) {
	missing := make(map[string]int, len(g))
	needed := make(map[string][]string, len(g))
	var ready []string
	for id, needs := range g {
		for _, n := range needs {
			if _, known := g[n]; known {
				missing[id]++
				needed[n] = append(needed[n], id)
			}
		}
		if missing[id] == 0 {
			ready = append(ready, id)
		}
	}
	slices.Sort(ready)
	for len(ready) > 0 {
		id := ready[0]
		ready = ready[1:]
		ids = append(ids, id)
		for _, next := range needed[id] {
			if missing[next]--; missing[next] == 0 {
				at, _ := slices.BinarySearch(ready, next)
				ready = slices.Insert(ready, at, next)
			}
		}
	}
	return ids, len(ids) == len(g)
}

// ancestry holds for each step the steps that it needs, directly or not.
type ancestry struct {
	index map[string]int
	// sets has a bit for each step that a step needs. With maps, a thousand steps that each need all steps before them would take
	// minutes.
	sets [][]uint64
	// cyclic says that some steps need each other.
	cyclic bool
}

// ancestors returns the ancestry of a graph. Steps of a cycle need each other and themselves.
func (g graph) ancestors() *ancestry {
	order, ok := g.order()
	clean := len(order)
	if !ok {
		for _, id := range slices.Sorted(maps.Keys(g)) {
			if !slices.Contains(order[:clean], id) {
				order = append(order, id)
			}
		}
	}
	a := &ancestry{index: make(map[string]int, len(order)), sets: make([][]uint64, len(order)), cyclic: !ok}
	for i, id := range order {
		a.index[id] = i
		a.sets[i] = make([]uint64, (len(order)+63)/64)
	}
	direct := make([][]int, len(order))
	for i, id := range order {
		for _, n := range g[id] {
			if at, known := a.index[n]; known {
				direct[i] = append(direct[i], at)
			}
		}
	}
	for i := range order {
		if i < clean {
			for _, at := range direct[i] {
				a.join(i, at)
			}
		} else {
			a.reach(i, clean, direct)
		}
	}
	return a
}

// join adds a step and all that it needs to what step i needs.
func (a *ancestry) join(i, at int) {
	a.sets[i][at/64] |= 1 << (at % 64)
	for w, bits := range a.sets[at] {
		a.sets[i][w] |= bits
	}
}

// reach finds what a step needs that is in a cycle or behind one. The sets of the first clean steps are complete.
func (a *ancestry) reach(i, clean int, direct [][]int) {
	todo := slices.Clone(direct[i])
	for len(todo) > 0 {
		at := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		switch {
		case a.sets[i][at/64]&(1<<(at%64)) != 0:
		case at < clean:
			a.join(i, at)
		default:
			a.sets[i][at/64] |= 1 << (at % 64)
			todo = append(todo, direct[at]...)
		}
	}
}

// needs says whether a step needs another, directly or not.
func (a *ancestry) needs(step, other string) bool {
	s, ok1 := a.index[step]
	o, ok2 := a.index[other]
	return ok1 && ok2 && a.sets[s][o/64]&(1<<(o%64)) != 0
}

// cycles returns one cycle for each group of steps that need each other, from its least step back to it.
func (g graph) cycles() [][]string {
	order, ok := g.order()
	if ok {
		return nil
	}
	done := make(map[string]bool, len(g))
	for _, id := range order {
		done[id] = true
	}
	var out [][]string
	for _, id := range slices.Sorted(maps.Keys(g)) {
		if c := g.cycleFrom(id, done); c != nil {
			out = append(out, c)
		}
	}
	return out
}

// cycleFrom follows the needs of a step until it meets one again, and marks the steps on the way as done.
func (g graph) cycleFrom(id string, done map[string]bool) []string {
	var way []string
	for !done[id] {
		if at := slices.Index(way, id); at >= 0 {
			for _, w := range way {
				done[w] = true
			}
			return rotate(way[at:])
		}
		way = append(way, id)
		next := ""
		for _, n := range g[id] {
			if _, known := g[n]; known && !done[n] {
				next = n
				break
			}
		}
		if next == "" {
			break
		}
		id = next
	}
	for _, w := range way {
		done[w] = true
	}
	return nil
}

// rotate turns a cycle so that its least step comes first, and closes it.
func rotate(cycle []string) []string {
	at := slices.Index(cycle, slices.Min(cycle))
	out := append(slices.Clone(cycle[at:]), cycle[:at]...)
	return append(out, out[0])
}

func arrow(cycle []string) string { return strings.Join(cycle, " -> ") }
