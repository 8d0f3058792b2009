package archtest

import (
	"fmt"
	"go/ast"
	"path"
	"slices"
	"strings"
)

const (
	methodsMax          = 40
	interfaceMethodsMax = 5
	testNameMax         = 60
)

// methodsMaxOf holds the types with a lower ceiling.
var methodsMaxOf = map[string]int{"supervisor.Owner": 24}

// theMethods: a type owns its state, and one with more methods than this is really several things.
func theMethods(tree []*source) []violation {
	type counted struct {
		at *source
		f  *ast.FuncDecl
		n  int
	}
	types := map[string]*counted{}
	for _, s := range tree {
		if s.test() || s.testPackage() || ast.IsGenerated(s.file) {
			continue
		}
		for _, d := range s.file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Recv == nil {
				continue
			}
			on, _, _ := strings.Cut(functionName(f), ".")
			name := s.dir + "." + on
			if types[name] == nil {
				types[name] = &counted{at: s, f: f}
			}
			types[name].n++
		}
	}
	var found []violation
	for name, c := range types {
		most := methodsMax
		if less, ok := methodsMaxOf[name]; ok {
			most = less
		}
		if c.n > most {
			found = append(found, c.at.at(c.f.Pos(), name, "%s has %d methods, more than %d: it is several things", name, c.n, most))
		}
	}
	return found
}

// largeInterfaces are interfaces with more methods than a caller usually needs, with the reason.
var largeInterfaces = map[string]string{
	"supervisor.Scheduler": "a pure function of a definition, in the questions that an owner asks of it; scheduler.Scheduler answers all of them from one compiled program",
	"supervisor.Store":     "what is committed must be read at one state: two interfaces could be answered by two stores",
	"supervisor.Log":       "the broker of one partition, as its shell uses it: each method is one action of the owner",
}

// theInterfaces: an interface belongs to the package that calls it, and has only the methods that
// the package calls.
func theInterfaces(tree []*source) []violation {
	var found []violation
	for _, s := range tree {
		if s.test() {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			t, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			i, ok := t.Type.(*ast.InterfaceType)
			if !ok {
				return true
			}
			methods := 0
			for _, m := range i.Methods.List {
				if _, is := m.Type.(*ast.FuncType); is {
					methods += max(len(m.Names), 1)
				}
			}
			if methods > interfaceMethodsMax {
				name := s.dir + "." + t.Name.Name
				found = append(found, s.at(t.Pos(), name, "the interface %s has %d methods, more than %d: split it, or give archtest the reason", name, methods, interfaceMethodsMax))
			}
			return true
		})
	}
	return except(found, largeInterfaces)
}

// theTestNames: the name of a test is a claim that fits on a line of output. The details are in its comment.
func theTestNames(tree []*source) []violation {
	var found []violation
	for _, s := range tree {
		if !strings.HasSuffix(path.Base(s.path), "_test.go") {
			continue
		}
		for _, d := range s.file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Recv != nil || !isTest(f.Name.Name) {
				continue
			}
			if n := len(f.Name.Name); n > testNameMax {
				found = append(found, s.at(f.Pos(), s.path+" "+f.Name.Name, "%s", fmt.Sprintf("the name %s has %d characters, more than %d", f.Name.Name, n, testNameMax)))
			}
		}
	}
	return found
}

// bubbleTests is what the names of tests begin with that need the tag synctests: the runs that build with it take no others.
var bubbleTests = []string{"TestFault", "TestRandom"}

// theBubble: a test that needs the tag synctests has a name by which it is run.
func theBubble(tree []*source) []violation {
	var found []violation
	for _, s := range tree {
		if !s.constrained("synctests") {
			continue
		}
		for _, d := range s.file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Recv != nil || !strings.HasPrefix(f.Name.Name, "Test") {
				continue
			}
			if !slices.ContainsFunc(bubbleTests, func(begin string) bool { return strings.HasPrefix(f.Name.Name, begin) }) {
				found = append(found, s.at(f.Pos(), s.path+" "+f.Name.Name, "%s is never run: with the tag synctests only %s are", f.Name.Name, strings.Join(bubbleTests, "... and ")+"..."))
			}
		}
	}
	return found
}

// isTest says whether go test runs functions of this name.
func isTest(name string) bool {
	for _, kind := range []string{"Test", "Fuzz", "Benchmark", "Example"} {
		if strings.HasPrefix(name, kind) {
			return true
		}
	}
	return false
}
