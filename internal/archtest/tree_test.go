package archtest

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// module is the module path, which our own imports begin with.
const module = "github.com/sagalog/sagalog"

// source is one parsed Go file.
type source struct {
	path string // from the module's root, with slashes
	dir  string // the package's folder from there; "." for the root
	fset *token.FileSet
	file *ast.File
}

// test says whether only `go test` compiles the file.
func (s *source) test() bool { return strings.HasSuffix(s.path, "_test.go") }

// testPackage says whether the file's package exists for tests: its name ends in test.
func (s *source) testPackage() bool { return strings.HasSuffix(path.Base(s.dir), "test") }

// constrained says whether the file is compiled only with the build tag.
func (s *source) constrained(tag string) bool {
	for _, group := range s.file.Comments {
		for _, c := range group.List {
			if c.Pos() < s.file.Package && c.Text == "//go:build "+tag {
				return true
			}
		}
	}
	return false
}

func (s *source) line(p token.Pos) int { return s.fset.Position(p).Line }

// imports returns the import paths with their places, in the order of the file.
func (s *source) imports() []imported {
	var all []imported
	for _, spec := range s.file.Imports {
		name := strings.Trim(spec.Path.Value, "`\"")
		local := path.Base(name)
		if spec.Name != nil {
			local = spec.Name.Name
		}
		all = append(all, imported{path: name, local: local, line: s.line(spec.Pos())})
	}
	return all
}

type imported struct {
	path  string
	local string // the name by which the file refers to the package, guessed from the path unless it is given
	line  int
}

// violation is one place where the code breaks a rule.
type violation struct {
	path string
	line int
	text string
	// by holds the names that an exception may use: the file, the function, or the imported path.
	by string
}

func (v violation) String() string { return fmt.Sprintf("%s:%d: %s", v.path, v.line, v.text) }

// at makes a violation at p. An exception may refer to it by any of the names in by.
func (s *source) at(p token.Pos, by, format string, args ...any) violation {
	return violation{path: s.path, line: s.line(p), text: fmt.Sprintf(format, args...), by: by}
}

// rule looks at the whole tree and returns its violations.
type rule func([]*source) []violation

// except removes the violations that have an exception, and adds a violation for each exception that matches nothing,
// so that the list of reasons stays true.
func except(found []violation, exceptions map[string]string) []violation {
	used := map[string]bool{}
	kept := slices.DeleteFunc(found, func(v violation) bool {
		_, ok := exceptions[v.by]
		used[v.by] = used[v.by] || ok
		return ok
	})
	for name := range exceptions {
		if !used[name] {
			kept = append(kept, violation{path: name, text: "archtest has an exception for this that is not needed any more: remove it"})
		}
	}
	return kept
}

// byPlace sorts violations by file and line.
func byPlace(all []violation) []violation {
	slices.SortFunc(all, func(a, b violation) int {
		return cmp.Or(cmp.Compare(a.path, b.path), cmp.Compare(a.line, b.line), cmp.Compare(a.text, b.text))
	})
	return all
}

// root finds the module's root above the working directory of the test.
func root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		if filepath.Dir(dir) == dir {
			return "", fmt.Errorf("no go.mod above the working directory")
		}
		dir = filepath.Dir(dir)
	}
}

// load parses every Go file of the module below root, without testdata, hidden folders and nested modules.
func load(root string) ([]*source, error) {
	var all []*source
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name != root && foreign(name, d.Name()) {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") || strings.HasPrefix(d.Name(), ".") || strings.HasPrefix(d.Name(), "_") {
			return nil
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		s, err := parse(filepath.ToSlash(rel), text)
		if err == nil {
			all = append(all, s)
		}
		return err
	})
	return all, err
}

// foreign says whether a folder is not part of the module.
func foreign(dir, base string) bool {
	if base == "testdata" || base == "vendor" || base == "node_modules" || strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_") {
		return true
	}
	_, err := os.Stat(filepath.Join(dir, "go.mod"))
	return err == nil
}

func parse(name string, text []byte) (*source, error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, fmt.Errorf("parse: %w", err)
	}
	return &source{path: name, dir: path.Dir(name), fset: fset, file: file}, nil
}

// functions returns the names of the file's functions, without methods.
func functions(s *source) []string {
	var names []string
	for _, d := range s.file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil {
			names = append(names, f.Name.Name)
		}
	}
	return names
}

// loadPages reads every handwritten file below root as text. Pictures are there without text, for the links to them.
func loadPages(root string) ([]page, error) {
	var all []page
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		base := d.Name()
		if d.IsDir() {
			if name != root && (base == "fuzz" || base == "rapid" || base == "node_modules" || base == "sagalog-data" || strings.HasPrefix(base, ".") && base != ".ci") {
				return filepath.SkipDir
			}
			return nil
		}
		kind := path.Ext(base)
		written := []string{".go", ".md", ".py", ".sh", ".java", ".yaml", ".yml", ".conf", ".mod", ".png"}
		if rel, _ := filepath.Rel(root, name); !slices.Contains(written, kind) && base != "llms.txt" && (kind != "" || !strings.HasPrefix(rel, ".ci") && base != "Makefile" && base != "Dockerfile") {
			return nil
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		if kind == ".png" {
			all = append(all, page{path: filepath.ToSlash(rel)})
			return nil
		}
		text, err := os.ReadFile(name)
		all = append(all, page{filepath.ToSlash(rel), string(text)})
		return err
	})
	return all, err
}
