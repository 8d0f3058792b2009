package archtest

import (
	"go/ast"
	"path"
	"slices"
	"strings"
)

// pure says whether a file decides or folds, and so depends on nothing but its arguments (INV4): all of events and
// scheduler, and of supervisor all but its shell and the clock of the shell.
func pure(s *source) bool {
	if s.test() {
		return false
	}
	base := path.Base(s.path)
	switch s.dir {
	case "events", "scheduler":
		return true
	case "supervisor":
		return !strings.HasPrefix(base, "shell") && base != "clock.go"
	}
	return false
}

// clockReads are the functions of package time that know what time it is.
var clockReads = []string{"Now", "Since", "Until", "After", "AfterFunc", "Tick", "NewTicker", "NewTimer", "Sleep"}

// worlds are imports by which a result could depend on more than the arguments.
var worlds = []string{
	"context", "crypto/rand", "io/fs", "log", "log/slog", "math/rand", "math/rand/v2", "net", "net/http", "os", "os/exec",
	"os/signal", "runtime", "sync", "sync/atomic", "syscall",
}

// pureExceptions are imports of worlds that change no result.
var pureExceptions = map[string]string{
	"scheduler/catalog.go sync/atomic": "API goroutines look up definitions while one goroutine applies them; each lookup sees one immutable catalog",
	"scheduler/plan.go sync/atomic":    "compiled programs are remembered over partitions; the same body compiles to the same program",
	"scheduler/schema_budget.go sync":  "inputs are validated at the same time by owners and by API goroutines, each with a compiled schema of its own; the result depends on the input alone",
}

// thePure: what decides reads no clock, throws no dice, starts no goroutine and sees no world.
func thePure(tree []*source) []violation {
	var found []violation
	for _, s := range tree {
		if !pure(s) {
			continue
		}
		for _, i := range s.imports() {
			if slices.Contains(worlds, i.path) {
				found = append(found, violation{s.path, i.line, "INV4: pure code must not import " + i.path, s.path + " " + i.path})
			}
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.SelectorExpr:
				if of(s, n.X, "time") && slices.Contains(clockReads, n.Sel.Name) {
					found = append(found, s.at(n.Pos(), s.path, "INV4: pure code must not read the clock: time.%s (pass now)", n.Sel.Name))
				}
			case *ast.GoStmt:
				found = append(found, s.at(n.Pos(), s.path, "INV4: pure code must not start goroutines"))
			case *ast.SelectStmt:
				found = append(found, s.at(n.Pos(), s.path, "INV4: pure code must not select: which case runs is chance"))
			}
			return true
		})
	}
	return except(found, pureExceptions)
}

// of says whether x is the name by which the file knows the imported package.
func of(s *source, x ast.Expr, imported string) bool {
	id, ok := x.(*ast.Ident)
	if !ok {
		return false
	}
	for _, i := range s.imports() {
		if i.path == imported && i.local == id.Name {
			return true
		}
	}
	return false
}

// theDice: math/rand stays out everywhere: its one sequence is shared by the whole program, and what it drew cannot be
// told from a seed. Its successor math/rand/v2 is for what no result depends on.
func theDice(tree []*source) []violation {
	var found []violation
	for _, s := range tree {
		for _, i := range s.imports() {
			if i.path == "math/rand" {
				found = append(found, violation{s.path, i.line, "math/rand is not used: math/rand/v2 with a seed of your own", s.path})
			}
		}
	}
	return found
}

// switches turn rules of the protocol off, for the tests that show what breaks without them.
var switches = []string{"Off", "SetLax"}

var switchExceptions = map[string]string{
	"supervisor/owner.go SetLax": "the owner hands its own Config.Off on to the fold",
}

// theSwitches: only internal/sim and tests set a switch. Go has no way to say so, and a program that sets one loses data.
func theSwitches(tree []*source) []violation {
	var found []violation
	for _, s := range tree {
		if s.test() || under(s.dir, []string{"internal/sim"}) != "" {
			continue
		}
		set := func(id *ast.Ident) {
			if slices.Contains(switches, id.Name) {
				found = append(found, s.at(id.Pos(), s.path+" "+id.Name, "%s is set by internal/sim and tests only", id.Name))
			}
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.KeyValueExpr:
				if id, ok := n.Key.(*ast.Ident); ok {
					set(id)
				}
			case *ast.AssignStmt:
				for _, to := range n.Lhs {
					if field, ok := to.(*ast.SelectorExpr); ok {
						set(field.Sel)
					}
				}
			case *ast.UnaryExpr: // by its address it could be set out of sight
				if field, ok := n.X.(*ast.SelectorExpr); ok && n.Op.String() == "&" {
					set(field.Sel)
				}
			case *ast.CallExpr:
				if f, ok := n.Fun.(*ast.SelectorExpr); ok {
					set(f.Sel)
				}
			}
			return true
		})
	}
	return except(found, switchExceptions)
}
