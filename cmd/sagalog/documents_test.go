//go:build unix

package main

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/cli"
	"github.com/stretchr/testify/require"
)

// fenced is a block of code of a document.
type fenced struct{ kind, text string }

func fencedIn(page string) (list []fenced) {
	for _, m := range regexp.MustCompile("(?ms)^ *```([a-z]*)[^\n]*\n(.*?)^ *```$").FindAllStringSubmatch(page, -1) {
		list = append(list, fenced{m[1], m[2]})
	}
	return list
}

func document(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../..", name))
	require.NoError(t, err)
	return string(text)
}

// tutorial is a run of docs/tutorial.md, in a separate directory.
type tutorial struct {
	t         *testing.T
	dir, shop string
	env       []string
	// said is what the commands of the last block printed, and last the last of them.
	said, last string
}

// The tutorial works as it stands there: the files are those of the page, the commands run, and what the page says that they print, they print.
// Only addresses differ, because those of the page may be in use.
func TestTheTutorialWorks(t *testing.T) {
	startsAgain(t)
	t.Parallel()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("the service of the tutorial needs python3")
	}
	page := document(t, "docs/tutorial.md")
	x := &tutorial{t: t, dir: t.TempDir(), shop: freeAddress(t)}
	page = strings.ReplaceAll(page, "127.0.0.1:7000", x.shop)
	_, port, err := net.SplitHostPort(x.shop)
	require.NoError(t, err)
	page = strings.ReplaceAll(page, `("127.0.0.1", 7000)`, `("127.0.0.1", `+port+`)`)
	x.files(page)
	program, err := filepath.Abs(os.Args[0])
	require.NoError(t, err)
	require.NoError(t, os.Symlink(program, filepath.Join(x.dir, "sagalog")))
	service := exec.Command(python, "shop.py")
	service.Dir = x.dir
	require.NoError(t, service.Start())
	t.Cleanup(func() { _ = service.Process.Kill(); _ = service.Wait() })

	_, after, found := strings.Cut(page, "## 3. An agent and a workflow")
	require.True(t, found)
	ran := 0
	for _, block := range fencedIn(after) {
		switch {
		case block.kind == "text":
			x.prints(block.text)
		case block.kind != "":
		case strings.Contains(block.text, "sagalog dev"):
			x.starts(strings.TrimSpace(block.text))
		default:
			ran++
			x.run(block.text)
		}
	}
	require.Greater(t, ran, 8)
}

// files writes each block that the text before it names: Save ... as `NAME`.
func (x *tutorial) files(page string) {
	saved := regexp.MustCompile("(?s)[Ss]ave (?:it|this|the workflow) as `([^`]+)`[^`]*?:\n\n```[a-z]+\n(.*?)```").FindAllStringSubmatch(page, -1)
	require.Len(x.t, saved, 4)
	for _, m := range saved {
		name := filepath.Join(x.dir, m[1])
		require.NoError(x.t, os.MkdirAll(filepath.Dir(name), 0o700))
		require.NoError(x.t, os.WriteFile(name, []byte(m[2]), 0o600))
	}
}

// starts starts the engine as the page says, at free addresses.
func (x *tutorial) starts(command string) {
	variable, rest, _ := strings.Cut(command, " ")
	args := strings.Fields(strings.TrimPrefix(rest, "sagalog "))
	require.Equal(x.t, "dev", args[0], command)
	data := filepath.Join(x.dir, "data")
	at := place{dir: x.dir, env: []string{variable}}
	engine := at.start(x.t, append(args, "--data", data, "--http", "127.0.0.1:0", "--kafka", "127.0.0.1:0")...)
	x.env = append(x.env, "SAGALOG_API="+engine.endpoints(data).HTTP)
	scraped(x.t, engine.endpoints(data).HTTP, `sagalog_agent_live_instances\{agent="parcel"\} 1`)
}

// run runs the commands of a block, each of which is a line.
func (x *tutorial) run(text string) {
	x.said, x.last = "", ""
	for line := range strings.SplitSeq(strings.TrimSpace(text), "\n") {
		want := 0
		if strings.Contains(line, "# exits with 6") {
			want = 6
		}
		said, code := x.shell(line)
		for code == cli.ExitStillRunning { // --wait waits for 30 s, and a busy machine may need longer
			said, code = x.shell("sagalog task get " + regexp.MustCompile(`order-\d`).FindString(line) + " --wait")
		}
		require.Equal(x.t, want, code, "%s\n%s", line, said)
		x.said, x.last = x.said+said, line
	}
}

func (x *tutorial) shell(line string) (said string, code int) {
	c := exec.CommandContext(x.t.Context(), "sh", "-c", line)
	c.Dir = x.dir
	c.Env = append(append(os.Environ(), "PATH="+x.dir+":"+os.Getenv("PATH"), programEnv+"=1"), x.env...)
	text, err := c.CombinedOutput()
	if _, ended := errors.AsType[*exec.ExitError](err); !ended {
		require.NoError(x.t, err)
	}
	return string(text), c.ProcessState.ExitCode()
}

// prints checks that the last commands printed these lines, in this order. Spaces stand for any number of them, and three points for any text.
// What a command shows that only reads may come later on a busy machine, so it is asked again.
func (x *tutorial) prints(text string) {
	missing := missingLine(text, x.said)
	for end := time.Now().Add(stepWait); missing != "" && strings.HasPrefix(x.last, "sagalog task get ") && time.Now().Before(end); {
		x.said, _ = x.shell(x.last)
		missing = missingLine(text, x.said)
	}
	require.Empty(x.t, missing, "the page says that this is printed, but this was:\n%s", x.said)
}

// missingLine returns the first line that was not printed.
func missingLine(text, said string) string {
	for line := range strings.SplitSeq(strings.TrimSpace(text), "\n") {
		pattern := strings.Join(strings.Fields(regexp.QuoteMeta(line)), `\s+`)
		at := regexp.MustCompile(strings.ReplaceAll(pattern, `\.\.\.`, `.*`)).FindStringIndex(said)
		if at == nil {
			return line
		}
		said = said[at[1]:]
	}
	return ""
}

// Each kind of waiting_for has a section in docs/waiting.md, and the page has no other section.
func TestEachKindOfWaitingHasASection(t *testing.T) {
	t.Parallel()
	var kinds, sections []string
	for _, w := range events.Waitings() {
		kinds = append(kinds, string(w))
	}
	for _, m := range regexp.MustCompile(`(?m)^## (.*)$`).FindAllStringSubmatch(document(t, "docs/waiting.md"), -1) {
		sections = append(sections, m[1])
	}
	require.Equal(t, kinds, sections)
}

// The workflow of the README is valid, and its drawing is that of `sagalog workflow graph`, except for the layout.
func TestTheWorkflowOfTheReadmeIsDrawnRight(t *testing.T) {
	startsAgain(t)
	t.Parallel()
	at := place{dir: t.TempDir()}
	var workflow, drawing string
	for _, block := range fencedIn(document(t, "README.md")) {
		switch {
		case strings.HasPrefix(block.text, "workflow: "):
			workflow = block.text
		case block.kind == "mermaid":
			drawing = block.text
		}
	}
	require.NoError(t, os.WriteFile(filepath.Join(at.dir, "trip.yaml"), []byte(workflow), 0o600))
	require.Equal(t, 0, at.run(t, "workflow", "validate", "trip.yaml").code())
	printed := at.run(t, "workflow", "graph", "trip.yaml", "-o", "mermaid").out.String()
	needs := regexp.MustCompile(`(s\d)(?:["\[{][^\n]*?[\]}])? --> (s\d)`)
	require.ElementsMatch(t, needs.FindAllString(stripped(printed), -1), needs.FindAllString(stripped(drawing), -1))
	for _, step := range []string{"flight", "hotel", "pay", "ticket"} {
		require.Contains(t, drawing, `"`+step+"<br/>")
	}
}

// stripped removes the names and shapes of the nodes of a drawing.
func stripped(drawing string) string {
	return regexp.MustCompile(`(s\d)(\[".*?"\]|\{\{".*?"\}\})`).ReplaceAllString(drawing, "$1")
}

// The index names every document, and the README stays short enough to be read at once.
func TestTheIndexNamesEveryDocument(t *testing.T) {
	t.Parallel()
	index := document(t, "docs/README.md")
	for _, pattern := range []string{"docs/*.md", "docs/reference/*.md"} {
		names, err := filepath.Glob(filepath.Join("../..", pattern))
		require.NoError(t, err)
		require.NotEmpty(t, names)
		for _, name := range names {
			in, err := filepath.Rel("../../docs", name)
			require.NoError(t, err)
			if in != "README.md" {
				require.Contains(t, index, "]("+filepath.ToSlash(in)+")")
			}
		}
	}
	require.LessOrEqual(t, strings.Count(document(t, "README.md"), "\n"), 200)
}
