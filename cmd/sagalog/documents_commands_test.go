package main

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/sagalog/sagalog/internal/cli"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// drawings is the reason of a document whose blocks are no commands.
const drawings = "drawings"

// runBy says which tests run the commands of a document as they stand there, or do the same, or why none does. Each line with sagalog is checked
// against the commands and their flags in any case.
var runBy = map[string]string{
	"README.md":                "TestFirstStart",
	"docs/demo.md":             "TestFirstStart",
	"docs/tutorial.md":         "TestTheTutorialWorks",
	"docs/examples/README.md":  "TestTheExamplesRun",
	"docs/workflows.md":        "TestTheCommandsOfTheDocumentAboutTestsWork",
	"docs/orders.md":           "TestTheRecipeForOrdersWorks",
	"docs/analysts.md":         "the script .ci/analysts runs them",
	"docs/cluster.md":          "TestClusterEveryDelivery starts the same processes",
	"docs/access.md":           "TestDevWithTokens, TestTokensAreListedAndRevoked",
	"docs/upgrading.md":        "TestUpgrade is one of them",
	"docs/encryption.md":       "TestAnErasedSubjectIsGoneWhileItsHistoryStays",
	"docs/keeping.md":          "TestACheckpointOfARunningNodeIsRestored, TestANamespaceIsCopiedByTheProgram",
	"docs/webhook.md":          "TestTheWebhookCanBeTried",
	"docs/opentelemetry.md":    "TestATaskIsOneTraceFromItsSubmissionToTheCalls",
	"docs/agents.md":           "TestAServiceReportsWhatItAccepted",
	"docs/steering.md":         "TestADryRunOfAVerbShowsWhatMatches",
	"docs/kubernetes.md":       "they need a cluster",
	"docs/systemd.md":          "they change a machine; TestTheUnitsAreValid checks units and drop-ins",
	"docs/alerts.md":           "they look at an engine that has a problem",
	"docs/waiting.md":          "they look at an engine that has a problem",
	"docs/operating.md":        "they change an engine in production",
	"docs/api.md":              "they read a task that the reader has",
	"docs/testing.md":          "they are tests at full size",
	"CONTRIBUTING.md":          "they are what CI runs",
	"ARCHITECTURE.md":          drawings,
	"docs/go.md":               "they prepare a module of the reader",
	"deploy/peers/README.md":   "deploy/peers/run --smoke, by hand: it needs PostgreSQL and builds other engines",
	"sdk/python/README.md":     "the script sdk/python/check runs them",
	"sdk/typescript/README.md": "the script sdk/typescript/check runs them",
}

// documents calls visit with each document of the repository, but for the generated ones.
func documents(t *testing.T, visit func(name, text string)) {
	t.Helper()
	require.NoError(t, filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		base := d.Name()
		if d.IsDir() && (base == "node_modules" || base == "testdata" || base == "reference" || strings.HasPrefix(base, ".") && base != "..") {
			return filepath.SkipDir
		}
		if filepath.Ext(path) == ".md" {
			name, err := filepath.Rel("../..", path)
			if err != nil {
				return err
			}
			visit(filepath.ToSlash(name), document(t, name))
		}
		return nil
	}))
}

// Commands in blocks of the documents exist, with the flags that are given, and each document says by which test its commands are run.
func TestTheCommandsOfTheDocumentsExist(t *testing.T) {
	t.Parallel()
	checked, unused := 0, map[string]bool{}
	for name := range runBy {
		unused[name] = true
	}
	documents(t, func(name, text string) {
		for _, b := range fencedIn(text) {
			if b.kind != "" && b.kind != "sh" {
				continue
			}
			require.NotEmpty(t, runBy[name], "%s has a block of commands: say in runBy which test runs it, or why none can", name)
			unused[name] = false
			if runBy[name] == drawings {
				continue
			}
			for line := range strings.SplitSeq(strings.ReplaceAll(b.text, "\\\n", " "), "\n") {
				for _, args := range calls(line) {
					checked++
					assert.NoError(t, known(args), "%s: %s", name, line)
				}
			}
		}
	})
	require.Greater(t, checked, 100)
	for name, still := range unused {
		require.False(t, still, "%s has no commands any more: remove it from runBy", name)
	}
	have := testsOfTheRepository(t)
	for name, tests := range runBy {
		for _, test := range regexp.MustCompile(`\bTest\w+`).FindAllString(tests, -1) {
			require.Contains(t, have, test, "the test of %s", name)
		}
	}
}

// testsOfTheRepository returns the names of all tests.
func testsOfTheRepository(t *testing.T) (names []string) {
	t.Helper()
	pattern := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	require.NoError(t, filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range pattern.FindAllStringSubmatch(string(text), -1) {
			names = append(names, m[1])
		}
		return err
	}))
	return names
}

// calls returns the arguments of the calls of sagalog in a line of shell.
func calls(line string) (list [][]string) {
	for _, words := range commandsOf(line) {
		for i, w := range words {
			switch {
			case w == "sagalog" || w == "./sagalog":
				list = append(list, words[i+1:])
			case w == "go" && i+2 < len(words) && words[i+1] == "run" && words[i+2] == "./cmd/sagalog":
				list = append(list, words[i+3:])
			case strings.Contains(w, "=") && !strings.HasPrefix(w, "-"):
				continue // a variable of the command
			}
			break
		}
	}
	return list
}

// word is a quoted or plain part of a shell's word, a separator of commands, spaces, or a comment.
var word = regexp.MustCompile(`'[^']*'|"(?:[^"\\]|\\.)*"|\$\([^)]*\)|&&|[|&;()]|[<>]+|\s+#.*|^#.*|\s+|[^\s'"|&;()<>]+`)

// commandsOf splits a line of shell into commands, and these into words.
func commandsOf(line string) (list [][]string) {
	var words []string
	var current string
	end := func() {
		if current != "" {
			words, current = append(words, current), ""
		}
	}
	for _, part := range word.FindAllString(line, -1) {
		switch trimmed := strings.TrimSpace(part); {
		case trimmed == "" || strings.HasPrefix(trimmed, "#") && trimmed != part:
			end()
		case strings.HasPrefix(part, "#") && current == "":
		case strings.ContainsAny(part[:1], "|&;()<>"):
			end()
			list, words = append(list, words), nil
		case strings.ContainsAny(part[:1], `'"`):
			current += part[1:len(part)-1] + "\x00"
		default:
			current += part
		}
	}
	end()
	for _, command := range append(list, words) {
		for i := range command {
			command[i] = strings.ReplaceAll(command[i], "\x00", "")
		}
	}
	return append(list, words)
}

// Commands that a text mentions exist, with the flags that are given.
func TestTheCommandsInTheTextExist(t *testing.T) {
	t.Parallel()
	inline := regexp.MustCompile("`((?:\\./)?sagalog [a-z][^`\n]*)`")
	choice := regexp.MustCompile(`(\w)(\\?\|[\w-]+)+`)
	checked := 0
	seen := map[string]bool{"sagalog key 1": true} // in events/FORMAT.md, the text of a key
	documents(t, func(name, text string) {
		for _, m := range inline.FindAllStringSubmatch(text, -1) {
			if strings.Contains(m[1], "...") || seen[m[1]] {
				continue
			}
			seen[m[1]] = true
			for _, args := range calls(choice.ReplaceAllString(m[1], "$1")) {
				checked++
				if err := known(args); err != nil && !strings.Contains(err.Error(), "usage: ") {
					t.Errorf("%s: %s: %v", name, m[1], err)
				}
			}
		}
	})
	require.Greater(t, checked, 100)
}

// known returns an error if there is no such command, or it takes no such flags or arguments.
func known(args []string) error {
	root := rootCommand()
	cli.Prepare(root)
	root.InitDefaultCompletionCmd()
	root.InitDefaultVersionFlag()
	c, rest, err := root.Find(args)
	if err != nil {
		return err
	}
	if c.HasAvailableSubCommands() && c != root && (len(rest) > 0 && !strings.HasPrefix(rest[0], "-")) {
		return errors.New(c.CommandPath() + " has no command " + rest[0])
	}
	c.InitDefaultHelpFlag()
	if err := c.ParseFlags(rest); err != nil {
		if _, placeholder := errors.AsType[*pflag.InvalidValueError](err); placeholder || strings.Contains(err.Error(), "is not possible") {
			return nil
		}
		return err
	}
	return arguments(c)
}

// arguments checks how many arguments a command got.
func arguments(c *cobra.Command) error {
	if c.Args == nil {
		return nil
	}
	return c.Args(c, c.Flags().Args())
}

// variable returns a variable of an agent's file.
func variable(name string) (string, bool) {
	if name == "PATH" {
		return os.LookupEnv(name)
	}
	return "http://127.0.0.1:1", true
}

// Files that documents show are right: workflows, agents and JSON.
func TestTheFilesOfTheDocumentsAreValid(t *testing.T) {
	t.Parallel()
	workflows, agents, values := 0, 0, 0
	documents(t, func(name, text string) {
		for _, b := range fencedIn(text) {
			switch {
			case b.kind == "yaml" && strings.HasPrefix(b.text, "workflow: ") && strings.Contains(b.text, "\nsteps:"):
				workflows++
				_, faults := loadDefinition(filepath.Join(t.TempDir(), "w.yaml"), []byte(b.text))
				assert.Empty(t, faults, "%s:\n%s", name, b.text)
			case b.kind == "yaml" && strings.HasPrefix(b.text, "agent: "):
				agents++
				files := fstest.MapFS{"a.yaml": {Data: []byte(b.text)}}
				assert.NoError(t, newBindings().files(files, variable), "%s:\n%s", name, b.text)
			case b.kind == "json":
				values++
				for d := json.NewDecoder(strings.NewReader(b.text)); d.More(); {
					var v any
					require.NoError(t, d.Decode(&v), "%s:\n%s", name, b.text)
				}
			}
		}
	})
	require.Greater(t, workflows, 2)
	require.Greater(t, agents, 3)
	require.Greater(t, values, 5)
}
