package archtest

import (
	"slices"
	"strings"
)

// star says which packages of ours each package may import, by folder (DESIGN 8). A package without a row may import
// nothing of ours, so a new one states its place here first.
//
// Tests of a package are free in what of ours they import: a cycle of packages they cannot make, and a test by the
// exported API of two packages is often the best one. What Kafka and Pebble are to be kept out of, they are too.
var star = map[string][]string{
	"events": nil, // the centre: everybody reads facts, so facts know nobody

	"projector":  {"events"},
	"supervisor": {"events"},
	"scheduler":  {"events", "internal/exprlang", "internal/rawjson"}, // exprlang: conditions and mappings are planned where the DAG is
	"agent":      {"events", "internal/exprlang"},                     // exprlang: an HTTP agent's method, path, headers and body are expressions

	"internal/exprlang": {"events", "internal/rawjson"}, // the numbers and instants of expressions are those of the wire
	"internal/rawjson":  nil,                            // JSON text, of whatever it speaks
	"internal/kafka":    {"events"},

	// A Go producer needs one import and one call to submit; the package exists to know Kafka.
	"scheduler/client": {"events", "internal/kafka"},

	// The example stands for somebody else's services: it shares no code with the engine.
	"internal/dronedelivery": nil,

	// Owns the interfaces of what it asks; node adapts the others to them.
	"internal/api": {"events"},
	"internal/ui":  nil,

	// Wiring: these join the arms of the star. cmd/sagalog would otherwise hold them, and tests could not reach them.
	"internal/node": {"events", "internal/api", "internal/kafka", "projector", "scheduler", "supervisor"},
	"internal/cli":  {"events", "internal/api", "internal/dronedelivery", "scheduler", "scheduler/client"},

	// A second opinion on the log: it shares the facts and the fold that it checks, and nothing that decides.
	"internal/verify": {"events"},

	"internal/archtest": nil,
}

// joins are the folders that may import everything of ours but commands: the programs, the simulator, which drives the
// real code of all packages in one process, the tests over real processes, and the benchmark, which is a whole system.
var joins = []string{"cmd/sagalog", "cmd/dronedelivery", "internal/sim", "internal/e2e", "internal/bench"}

// importExceptions are files that go beyond their package's row.
var importExceptions = map[string]string{
	"agent/dial.go internal/kafka": "a Go program becomes an agent with one call; all else in agent speaks to Source and Sink",
}

// theStar: imports of ours have the directions of star.
func theStar(tree []*source) []violation {
	var found []violation
	for _, s := range tree {
		if s.test() || slices.Contains(joins, under(s.dir, joins)) {
			continue
		}
		allowed, known := allowance(s.dir)
		if !known {
			found = append(found, s.at(s.file.Package, s.dir, "the package %s has no row in archtest's star: say what it may import", s.dir))
		}
		for _, i := range s.imports() {
			ours, ok := strings.CutPrefix(i.path, module+"/")
			if !ok || slices.Contains(allowed, ours) {
				continue
			}
			found = append(found, violation{s.path, i.line, s.dir + " must not import " + ours, s.path + " " + ours})
		}
	}
	return except(found, importExceptions)
}

// allowance returns what dir may import. A package for tests, such as agent/agenttest, sits below the package that it
// serves and may import it and what that one may.
func allowance(dir string) (allowed []string, known bool) {
	if allowed, known = star[dir]; known {
		return allowed, true
	}
	served, last, ok := cutLast(dir)
	if ok && strings.HasSuffix(last, "test") {
		allowed, known = star[served]
		return append(slices.Clone(allowed), served, "events"), known
	}
	return nil, false
}

func cutLast(dir string) (before, last string, found bool) {
	i := strings.LastIndex(dir, "/")
	if i < 0 {
		return "", dir, false
	}
	return dir[:i], dir[i+1:], true
}

// under returns the folder of dirs that dir is or lies in; "" for none.
func under(dir string, dirs []string) string {
	for _, d := range dirs {
		if dir == d || strings.HasPrefix(dir, d+"/") {
			return d
		}
	}
	return ""
}

// home says where a library may be imported, tests included.
type home struct {
	library string // this path or any below it
	dirs    []string
	reason  string
}

var homes = []home{
	{"github.com/twmb/franz-go", []string{"internal/kafka", "internal/sim", "internal/e2e"},
		"the guards against what the client and the embedded broker do not promise stand in internal/kafka, and a second user would go around them (the simulator and the process tests play the foreign client)"},
	{"github.com/cockroachdb/pebble", []string{"projector", "internal/sim"},
		"state and offset go in one batch (INV3), which only one place can promise"},
}

// theHomes: a library with a home is imported nowhere else.
func theHomes(tree []*source) []violation {
	var found []violation
	for _, s := range tree {
		for _, i := range s.imports() {
			for _, h := range homes {
				if (i.path == h.library || strings.HasPrefix(i.path, h.library+"/")) && under(s.dir, h.dirs) == "" {
					found = append(found, violation{s.path, i.line, i.path + " belongs in " + strings.Join(h.dirs, ", ") + ": " + h.reason, s.path})
				}
			}
		}
	}
	return found
}

// theTesting: nothing that a program links imports testing, which registers flags and grows the binary.
func theTesting(tree []*source) []violation {
	var found []violation
	for _, s := range tree {
		if s.test() || s.testPackage() {
			continue
		}
		for _, i := range s.imports() {
			if i.path == "testing" || strings.HasPrefix(i.path, "testing/") || strings.HasPrefix(i.path, "github.com/stretchr/testify") {
				found = append(found, violation{s.path, i.line, i.path + " is for _test.go files and ...test packages", s.path})
			}
		}
	}
	return found
}
