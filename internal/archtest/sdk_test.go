package archtest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// sdks are the packages in other languages with their ceilings, in lines of code. The aim is 800 lines each, which neither meets: a ceiling may fall and
// must not rise.
// sdk/README.md says how lines are counted and where they go.
var sdks = []struct {
	files    string
	ceiling  int
	apart    string // starts an engine for the tests of users: no part of an agent or a producer
	comments func(code string) (without string)
}{
	{files: "sdk/python/sagalog/*.py", ceiling: 1200, apart: "testing.py", comments: withoutPythonComments},
	{files: "sdk/typescript/src/*.ts", ceiling: 1466, comments: withoutTypeScriptComments},
}

func TestAnSDKStaysSmall(t *testing.T) {
	t.Parallel()
	dir, err := root()
	if err != nil {
		t.Fatal(err)
	}
	for _, sdk := range sdks {
		paths, err := filepath.Glob(filepath.Join(dir, sdk.files))
		if err != nil || len(paths) < 5 {
			t.Fatalf("%d files found at %s (%v): the test would check nothing", len(paths), sdk.files, err)
		}
		sum := 0
		for _, path := range paths {
			code, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			lines := codeLines(sdk.comments(string(code)))
			if filepath.Base(path) == sdk.apart {
				t.Logf("%s has %d lines of code, which are counted apart", path, lines)
				continue
			}
			t.Logf("%s has %d lines of code", path, lines)
			sum += lines
		}
		if sum > sdk.ceiling {
			t.Errorf("%s have %d lines of code, more than %d: find what says a thing twice, or what the Kafka client can do", sdk.files, sum, sdk.ceiling)
		}
	}
}

func TestOnlyLinesOfCodeOfAnSDKCount(t *testing.T) {
	t.Parallel()
	python := "\"\"\"Says what it is for.\n\nIn two paragraphs.\n\"\"\"\n\nimport os  # counts\n\n# does not count\ndef f() -> str:\n    \"\"\"One line.\"\"\"\n    return \"\"\"a\n\nb\"\"\"\n"
	if n := codeLines(withoutPythonComments(python)); n != 4 {
		t.Errorf("%d lines of Python, not 4", n)
	}
	typescript := "// Says what it is for.\n\n/**\n * Of a thing.\n */\nexport const a = 1; // counts\n/** One line. */\nexport const b = `x\n`;\n"
	if n := codeLines(withoutTypeScriptComments(typescript)); n != 3 {
		t.Errorf("%d lines of TypeScript, not 3", n)
	}
}

// codeLines counts the lines that are not blank.
func codeLines(code string) int {
	n := 0
	for line := range strings.Lines(code) {
		if strings.TrimSpace(line) != "" {
			n++
		}
	}
	return n
}

// withoutPythonComments leaves out lines that hold nothing but a comment or a docstring. A text that begins a line is a docstring.
func withoutPythonComments(code string) string {
	return without(code, "#", `"""`, `"""`)
}

func withoutTypeScriptComments(code string) string {
	return without(code, "//", "/*", "*/")
}

// without leaves out lines that begin with a mark, and blocks of lines from one that begins with opens to the one that has closes.
func without(code, mark, opens, closes string) string {
	var kept strings.Builder
	inside := false
	for line := range strings.Lines(code) {
		text := strings.TrimSpace(line)
		after, begins := strings.CutPrefix(text, opens)
		switch {
		case inside:
			inside = !strings.Contains(text, closes)
		case begins:
			inside = !strings.Contains(after, closes)
		case !strings.HasPrefix(text, mark):
			kept.WriteString(line)
		}
	}
	return kept.String()
}
