package model_test

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sagalog/sagalog/internal/sim/model"
	"github.com/stretchr/testify/require"
)

// mutantVariable is the environment variable that selects a mutant of a program that contains several.
const mutantVariable = "SAGALOG_MUTANT"

// deep are the mutants that only show after several steps of the clock, with the turn of the runs of CI in which each is searched:
// their searches take up to a minute, and more than those of all others together.
var deep = map[string]int{
	"rerun-corrects-undo-in-doubt": 0, "agent-counts-from-before-sending": 1, "passed-progress-is-covered": 2, "signal-timeout-waits-for-submissions": 3,
}

// ofThisTurn returns the mutants that are not left to the runs with another turn.
func ofThisTurn(all []mutant) (chosen []mutant) {
	for i, m := range all {
		turn, is := deep[m.name]
		if !is {
			turn = i % model.Turns
		}
		if *turnFlag < 0 || turn == *turnFlag {
			chosen = append(chosen, m)
		}
	}
	return chosen
}

// build is the product with changed files. Compiling and linking it takes far longer than finding a mutant, so one program
// contains every mutant of a function: the function stays, a changed copy of it stands beside it, and the function begins by
// calling the copy if the environment selects that mutant.
type build struct {
	// sources are the files with mutants of functions, by path.
	sources map[string]*source
	// files are other changed files, by path.
	files map[string]string
}

// source is a file of the product to which copies of functions are added.
type source struct {
	text string
	tree *ast.File
	set  *token.FileSet
	// calls holds what is inserted, by the offset of the place, and copies what is appended.
	calls  map[int]string
	copies []string
}

// add adds a mutant. It returns false if its place is not in a function, or in one that cannot be copied.
func (b *build) add(name string, at *place, e edit) (bool, error) {
	s, err := b.source(at)
	if err != nil {
		return false, err
	}
	changed, err := at.apply(e)
	if err != nil {
		return false, err
	}
	for _, d := range s.tree.Decls {
		f, is := d.(*ast.FuncDecl)
		if !is || s.line(f.Pos()) > at.line || s.line(f.End()) < at.line {
			continue
		}
		copied := fmt.Sprintf("%s_mutant%d", f.Name.Name, len(s.copies))
		call, can := callOf(f, copied)
		if !can {
			return false, nil
		}
		// The lines above the changed one are the same in both texts, and so is the number of bytes after it.
		from, end := s.offset(f.Pos()), s.offset(f.End())+len(changed)-len(s.text)
		until := s.offset(f.Name.Pos())
		s.copies = append(s.copies, changed[from:until]+copied+changed[until+len(f.Name.Name):end])
		s.calls[s.offset(f.Body.Lbrace)+1] += fmt.Sprintf(" if selectedMutant == %q { %s }; ", name, call)
		return true, nil
	}
	return false, nil
}

func (b *build) source(at *place) (*source, error) {
	if s := b.sources[at.file]; s != nil {
		return s, nil
	}
	s := &source{text: strings.Join(at.lines, "\n"), set: token.NewFileSet(), calls: map[int]string{}}
	var err error
	s.tree, err = parser.ParseFile(s.set, at.file, s.text, parser.SkipObjectResolution)
	b.sources[at.file] = s
	return s, err
}

func (s *source) offset(p token.Pos) int { return s.set.Position(p).Offset }

// line returns the index of the line.
func (s *source) line(p token.Pos) int { return s.set.Position(p).Line - 1 }

// String returns the text with the calls and the copies.
func (s *source) String() string {
	var text strings.Builder
	from := 0
	for _, at := range slices.Sorted(maps.Keys(s.calls)) {
		text.WriteString(s.text[from:at] + s.calls[at])
		from = at
	}
	text.WriteString(s.text[from:])
	for _, c := range s.copies {
		text.WriteString("\n" + c + "\n")
	}
	return text.String()
}

// callOf returns a statement that calls the copy with the arguments of the function and returns. It returns false if an
// argument has no name.
func callOf(f *ast.FuncDecl, copied string) (string, bool) {
	var arguments []string
	for _, p := range f.Type.Params.List {
		if len(p.Names) == 0 {
			return "", false
		}
		for _, n := range p.Names {
			if n.Name == "_" {
				return "", false
			}
			if _, variadic := p.Type.(*ast.Ellipsis); variadic {
				n = ast.NewIdent(n.Name + "...")
			}
			arguments = append(arguments, n.Name)
		}
	}
	call := copied + "(" + strings.Join(arguments, ", ") + ")"
	if f.Recv != nil {
		if len(f.Recv.List[0].Names) == 0 {
			return "", false
		}
		call = f.Recv.List[0].Names[0].Name + "." + call
	}
	if f.Type.Results == nil {
		return call + "; return", true
	}
	return "return " + call, true
}

// compile returns the path of the search's program.
func (b *build) compile(t *testing.T, root string) string {
	t.Helper()
	files := maps.Clone(b.files)
	if files == nil {
		files = map[string]string{}
	}
	for path, s := range b.sources {
		files[path] = s.String()
		files[filepath.Join(filepath.Dir(path), "selected_mutant.go")] = fmt.Sprintf(
			"package %s\n\nimport \"os\"\n\nvar selectedMutant = os.Getenv(%q)\n", s.tree.Name.Name, mutantVariable)
	}
	dir, replace := t.TempDir(), map[string]string{}
	for path, text := range files {
		replace[path] = filepath.Join(dir, fmt.Sprintf("%d.go", len(replace)))
		require.NoError(t, os.WriteFile(replace[path], []byte(text), 0o600))
	}
	list, err := json.Marshal(map[string]map[string]string{"Replace": replace})
	require.NoError(t, err)
	overlay, program := filepath.Join(dir, "overlay.json"), filepath.Join(dir, "model.test")
	require.NoError(t, os.WriteFile(overlay, list, 0o600))
	cmd := exec.Command("go", "test", "-c", "-vet=off", "-ldflags=-s -w", "-overlay="+overlay, "-o", program, "./internal/sim/model")
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return program
}
