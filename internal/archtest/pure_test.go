package archtest

import (
	"go/ast"
	"path"
	"slices"
	"strings"
)

// pure says whether a file decides or folds, and so depends on nothing but its arguments (INV4): all of events and
// scheduler, and all of supervisor except the shell and its clock.
func pure(s *source) bool {
	if s.test() {
		return false
	}
	base := path.Base(s.path)
	switch s.dir {
	case "events", "internal/jsontext", "scheduler":
		return true
	case "supervisor":
		return !strings.HasPrefix(base, "shell") && base != "clock.go"
	}
	return false
}

// clockReads are the functions of package time that read the clock.
var clockReads = []string{"Now", "Since", "Until", "After", "AfterFunc", "Tick", "NewTicker", "NewTimer", "Sleep"}

// worlds are the imports through which a result could depend on more than the arguments.
var worlds = []string{
	"context", "crypto/rand", "io/fs", "log", "log/slog", "math/rand", "math/rand/v2", "net", "net/http", "os", "os/exec",
	"os/signal", "runtime", "sync", "sync/atomic", "syscall",
}

// pureExceptions are imports from worlds that do not affect any result.
var pureExceptions = map[string]string{
	"scheduler/catalog.go sync/atomic":   "API goroutines look up definitions while one goroutine applies them; each lookup sees one immutable catalog",
	"scheduler/programs.go sync":         "compiled programs are shared by partitions; the same body compiles to the same program",
	"scheduler/programs.go sync/atomic":  "likewise; a program that was forgotten is compiled again before it is asked",
	"scheduler/schema_copies.go sync":    "inputs are validated at the same time by owners and by API goroutines, each with a separate compiled schema; the result depends on the input alone",
	"scheduler/schema_copies.go runtime": "how many of them are made at once follows from the number of cores, and no result does",
}

// thePure: code that decides reads no clock, uses no randomness, starts no goroutine and does no
// I/O.
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
				found = append(found, s.at(n.Pos(), s.path, "INV4: pure code must not select: the choice of a case is random"))
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

// theDice: math/rand is not used anywhere. The whole program shares one sequence, so its numbers cannot be repeated
// from a seed. Its successor math/rand/v2 is allowed if no result depends on it.
func theDice(tree []*source) []violation {
	var found []violation
	for _, s := range tree {
		for _, i := range s.imports() {
			if i.path == "math/rand" {
				found = append(found, violation{s.path, i.line, "math/rand is not used: use math/rand/v2 with an explicit seed", s.path})
			}
		}
	}
	return found
}

// switches turn rules of the protocol off, for the tests that show what breaks without them.
var switches = []string{"Off", "SetLax"}

var switchExceptions = map[string]string{
	"supervisor/epoch.go SetLax": "the owner hands its own Config.Off on to the fold",
}

// theSwitches: only internal/sim and tests set a switch. The compiler cannot check this, and a program that sets a
// switch loses data.
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
			case *ast.UnaryExpr: // its address could be used to set it unnoticed
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
