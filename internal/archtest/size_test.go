package archtest

import (
	"fmt"
	"go/ast"
	"go/token"
	"path"
)

// The ceilings, in lines. They apply to tests too, because nobody reads a test that does not fit on a screen as a
// specification. But a test's table is data, so its lines are not counted.
const (
	fileLinesMax     = 500
	functionLinesMax = 70
)

// longFunctions are exhaustive switches over the ceiling in which each case is one call, with the reason.
var longFunctions = map[string]string{}

// theSizes: files and functions have a ceiling, except generated ones.
func theSizes(tree []*source) []violation {
	var found []violation
	for _, s := range tree {
		if ast.IsGenerated(s.file) {
			continue
		}
		if n := s.fset.File(s.file.Package).LineCount(); n > fileLinesMax {
			found = append(found, violation{s.path, 1, fmt.Sprintf("the file has %d lines, more than %d", n, fileLinesMax), s.path})
		}
		for _, d := range s.file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			if n := functionLines(s, f); n > functionLinesMax {
				found = append(found, s.at(f.Pos(), s.dir+"."+functionName(f), "%s has %d lines, more than %d", functionName(f), n, functionLinesMax))
			}
		}
	}
	return except(found, longFunctions)
}

// functionLines counts a function's lines. In a test it leaves out the lines inside composite literals.
func functionLines(s *source, f *ast.FuncDecl) int {
	n := s.line(f.End()) - s.line(f.Pos()) + 1
	if !s.test() {
		return n
	}
	ast.Inspect(f, func(node ast.Node) bool {
		literal, ok := node.(*ast.CompositeLit)
		if ok {
			n -= s.line(literal.End()) - s.line(literal.Pos())
		}
		return !ok
	})
	return n
}

// functionName is Func or Type.Method.
func functionName(f *ast.FuncDecl) string {
	if f.Recv == nil || len(f.Recv.List) == 0 {
		return f.Name.Name
	}
	on := f.Recv.List[0].Type
	for {
		switch t := on.(type) {
		case *ast.StarExpr:
			on = t.X
		case *ast.IndexExpr:
			on = t.X
		case *ast.IndexListExpr:
			on = t.X
		case *ast.Ident:
			return t.Name + "." + f.Name.Name
		default:
			return f.Name.Name
		}
	}
}

// theDocs: every package says in doc.go what it is for; a command may say it in its main file, where its help is.
func theDocs(tree []*source) []violation {
	first, said := map[string]*source{}, map[string]bool{}
	for _, s := range tree {
		if s.test() {
			continue
		}
		if first[s.dir] == nil {
			first[s.dir] = s
		}
		base := path.Base(s.path)
		if s.file.Doc != nil && (base == "doc.go" || base == "main.go" && s.file.Name.Name == "main" || s.testPackage()) {
			said[s.dir] = true
		}
	}
	var found []violation
	for dir, s := range first {
		if !said[dir] {
			found = append(found, violation{s.path, 1, dir + " has no doc.go with a package comment", dir})
		}
	}
	return found
}

// offWire holds the exported iota constants that never leave the process, with the reason.
var offWire = map[string]string{
	"events.FateAccepted": "what the fold answers its caller; lives in memory only",
	"events.FateVoid":     "the same",
}

// theIota: exported constants have explicit values. Sooner or later an exported constant is printed, stored or sent,
// and then an inserted line must not renumber it.
func theIota(tree []*source) []violation {
	var found []violation
	for _, s := range tree {
		for _, d := range s.file.Decls {
			group, ok := d.(*ast.GenDecl)
			if !ok || group.Tok != token.CONST {
				continue
			}
			found = append(found, countedNames(s, group)...)
		}
	}
	return except(found, offWire)
}

// countedNames returns the exported constants of a group whose value comes from iota. A line without a value repeats the
// expression above it.
func countedNames(s *source, group *ast.GenDecl) []violation {
	var found []violation
	counted := false
	for _, spec := range group.Specs {
		v, ok := spec.(*ast.ValueSpec)
		if !ok {
			continue
		}
		if len(v.Values) > 0 {
			counted = usesIota(v.Values)
		}
		for _, name := range v.Names {
			if counted && name.IsExported() {
				found = append(found, s.at(name.Pos(), s.dir+"."+name.Name, "the exported constant %s is numbered by iota: write its value", name.Name))
			}
		}
	}
	return found
}

func usesIota(values []ast.Expr) bool {
	used := false
	for _, v := range values {
		ast.Inspect(v, func(n ast.Node) bool {
			id, ok := n.(*ast.Ident)
			used = used || ok && id.Name == "iota"
			return true
		})
	}
	return used
}
