package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sagalog/sagalog/internal/wftest"
	"github.com/sagalog/sagalog/scheduler"
	"github.com/spf13/cobra"
)

const (
	formatText  = "text"
	formatJUnit = "junit"
	formatTAP   = "tap"
)

var testFormats = []string{formatText, formatJSON, formatJUnit, formatTAP}

// testEndings are how the names of test files end.
var testEndings = []string{".test.yaml", ".test.yml", ".test.json"}

func testCommand(d Deps) *cobra.Command {
	c := &cobra.Command{
		Use: "test FILE|DIR...", Short: "Run the tests of workflows, without an engine", Args: cobra.MinimumNArgs(1),
		Long: "Run the tests of workflows, without an engine. A test file names the workflow and cases: an input, what the agents answer,\n" +
			"and how the task must end. Retries, deadlines and undos are the engine's, and the time is virtual. In a folder, and those\n" +
			"below, the files whose names end in .test.yaml, .test.yml or .test.json are run. The exit code is 1 if a case fails or a\n" +
			"file has a fault.",
		Example: "  sagalog workflow test tests/\n  sagalog workflow test orders.test.yaml --run 'refused|cancel'\n  sagalog workflow test tests/ -o junit > report.xml",
		RunE:    func(cmd *cobra.Command, args []string) error { return runTests(cmd, d, args) },
	}
	c.Flags().String("run", "", "only run the cases whose names match this regular expression")
	WithoutVariable(c.Flags(), "run")
	return formatsOf(c, testFormats)
}

// formatsOf adds -o with the formats of a command; the first is the default.
func formatsOf(c *cobra.Command, known []string) *cobra.Command {
	last := len(known) - 1
	c.Flags().StringP("output", "o", known[0], strings.Join(known[:last], ", ")+" or "+known[last])
	WithoutVariable(c.Flags(), "output") // the variable is for the formats of the other commands
	suggest(c, "output", known...)
	return c
}

// formatOf returns the value of -o.
func formatOf(cmd *cobra.Command, known []string) (string, error) {
	f := cmd.Flags().Lookup("output").Value.String()
	if !slices.Contains(known, f) {
		return "", Usage("--output %q: known are %s", f, strings.Join(known, ", "))
	}
	return f, nil
}

// testRun is what the test files led to.
type testRun struct {
	files []*testedFile
	// faults are those of all files that cannot be run.
	faults []scheduler.Fault
}

// testedFile is a test file and how its cases went.
type testedFile struct {
	*wftest.File
	results []*wftest.Result
	took    []time.Duration
	// whole means that each case ran, so that the coverage means something.
	whole bool
}

func runTests(cmd *cobra.Command, d Deps, args []string) error {
	format, err := formatOf(cmd, testFormats)
	if err != nil {
		return err
	}
	pattern, err := regexp.Compile(cmd.Flags().Lookup("run").Value.String())
	if err != nil {
		return Usage("--run: %s", err)
	}
	paths, err := testFiles(args)
	if err != nil {
		return err
	}
	run := &testRun{}
	for _, path := range paths {
		if err := run.file(cmd, d, path, pattern); err != nil {
			return err
		}
	}
	out := cmd.OutOrStdout()
	switch format {
	case formatJSON:
		err = run.printJSON(out)
	case formatJUnit:
		err = run.printJUnit(out)
	case formatTAP:
		run.printTAP(out)
	default:
		run.printText(out)
	}
	if err != nil {
		return err
	}
	return run.verdict()
}

// verdict returns the error of the command.
func (t *testRun) verdict() error {
	total, failed := 0, 0
	for _, f := range t.files {
		for _, r := range f.results {
			total++
			if len(r.Failures) > 0 {
				failed++
			}
		}
	}
	switch {
	case len(t.faults) > 0:
		return exit(ExitError, "%s", Counted(len(t.faults), "fault"))
	case failed > 0:
		return exit(ExitError, "%d of %s failed", failed, Counted(total, "case"))
	case total == 0:
		return exit(ExitError, "no case was run: no name matches --run")
	}
	return nil
}

// IsTestFile says by its name whether a file holds tests of a workflow.
func IsTestFile(path string) bool {
	return slices.ContainsFunc(testEndings, func(end string) bool { return strings.HasSuffix(path, end) })
}

// testFiles lists the test files of the arguments.
func testFiles(args []string) (paths []string, err error) {
	for _, arg := range args {
		info, err := os.Stat(arg)
		if err != nil {
			return nil, fmt.Errorf("find the tests: %w", err)
		}
		if !info.IsDir() {
			paths = append(paths, arg)
			continue
		}
		before := len(paths)
		err = filepath.WalkDir(arg, func(path string, e fs.DirEntry, err error) error {
			if err == nil && e.Type().IsRegular() && IsTestFile(path) {
				paths = append(paths, path)
			}
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("find the tests: %w", err)
		}
		if len(paths) == before {
			return nil, exit(ExitError, "%s has no test file: their names end in %s", arg, strings.Join(testEndings, ", "))
		}
	}
	return paths, nil
}

// file runs the cases of a test file whose names match.
func (t *testRun) file(cmd *cobra.Command, d Deps, path string, pattern *regexp.Regexp) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read the test file: %w", err)
	}
	f, faults := wftest.Parse(path, data, func(file string) (*scheduler.Source, []scheduler.Fault, error) { return load(cmd, d, file) })
	for _, x := range faults {
		if x.Warning {
			fmt.Fprintln(cmd.ErrOrStderr(), Printable(x.String()))
		} else {
			t.faults = append(t.faults, x)
		}
	}
	if f == nil {
		return nil
	}
	tested := &testedFile{File: f, whole: true}
	for _, c := range f.Cases {
		if !pattern.MatchString(c.Name) {
			tested.whole = false
			continue
		}
		start := time.Now()
		r, err := f.Run(c)
		if err != nil {
			return fmt.Errorf("%s:%d: %w", path, c.Line, err)
		}
		tested.results, tested.took = append(tested.results, r), append(tested.took, time.Since(start))
	}
	t.files = append(t.files, tested)
	return nil
}

func (t *testRun) printText(out io.Writer) {
	for _, f := range t.faults {
		fmt.Fprintln(out, Printable(f.String()))
	}
	for _, f := range t.files {
		fmt.Fprintln(out, Printable(f.Path))
		for i, r := range f.results {
			verdict := "ok  "
			if len(r.Failures) > 0 {
				verdict = "FAIL"
			}
			fmt.Fprintf(out, "  %s  %s (%s; virtual time %s)\n", verdict, Printable(r.Case.Name), f.took[i].Round(10*time.Microsecond), r.Took)
			if len(r.Failures) > 0 {
				printFailures(out, f.Path, r)
			}
		}
		if f.whole {
			fmt.Fprintf(out, "  coverage: %s\n", f.Coverage(f.results))
		}
	}
}

// printFailures prints what differs, and how the task was at the end.
func printFailures(out io.Writer, path string, r *wftest.Result) {
	for _, f := range r.Failures {
		fmt.Fprintf(out, "        %s:%d: %s\n", Printable(path), f.Line, Printable(f.Message))
		if f.Expected != f.Actual {
			fmt.Fprintf(out, "          - expected %s\n          + actual   %s\n", Printable(f.Expected), Printable(f.Actual))
		}
	}
	var rows []row
	for _, s := range r.Steps {
		rows = append(rows, row{s.Step, string(s.State), strconv.Itoa(s.Attempts), strconv.Itoa(s.UndoAttempts), Printable(s.Error)})
	}
	var b strings.Builder
	if len(rows) > 0 && table(&b, row{"STEP", "STATE", "ATTEMPTS", "UNDO ATTEMPTS", "ERROR"}, rows) == nil {
		fmt.Fprintln(out, "        "+strings.ReplaceAll(strings.TrimSpace(b.String()), "\n", "\n        "))
	}
	for _, c := range r.Calls {
		fmt.Fprintf(out, "        %10s  %s %s#%d: %s\n", c.At, c.Operation, c.Step, c.Attempt, Printable(c.Answer))
	}
}

// testDocument is a test file in JSON.
type testDocument struct {
	File     string           `json:"file"`
	Workflow string           `json:"workflow"`
	Cases    []caseDocument   `json:"cases"`
	Coverage *wftest.Coverage `json:"coverage,omitempty"`
}

type caseDocument struct {
	Name   string `json:"name"`
	Line   int    `json:"line"`
	Passed bool   `json:"passed"`
	*wftest.Result
}

func (t *testRun) printJSON(out io.Writer) error {
	doc := struct {
		Faults []scheduler.Fault `json:"faults,omitempty"`
		Files  []testDocument    `json:"files"`
	}{t.faults, []testDocument{}}
	for _, f := range t.files {
		d := testDocument{File: f.Path, Workflow: f.Workflow, Cases: []caseDocument{}}
		for _, r := range f.results {
			d.Cases = append(d.Cases, caseDocument{r.Case.Name, r.Case.Line, len(r.Failures) == 0, r})
		}
		if f.whole {
			c := f.Coverage(f.results)
			d.Coverage = &c
		}
		doc.Files = append(doc.Files, d)
	}
	e := json.NewEncoder(out)
	e.SetIndent("", "  ")
	return e.Encode(doc)
}
