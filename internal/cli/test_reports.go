package cli

import (
	"encoding/xml"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/sagalog/sagalog/internal/wftest"
)

// junitSuites is the root of a JUnit report. Its times are seconds that the cases really took.
type junitSuites struct {
	XMLName  xml.Name     `xml:"testsuites"`
	Tests    int          `xml:"tests,attr"`
	Failures int          `xml:"failures,attr"`
	Errors   int          `xml:"errors,attr"`
	Suites   []junitSuite `xml:"testsuite"`
}

type junitSuite struct {
	Name     string      `xml:"name,attr"`
	Tests    int         `xml:"tests,attr"`
	Failures int         `xml:"failures,attr"`
	Errors   int         `xml:"errors,attr"`
	Time     string      `xml:"time,attr"`
	Cases    []junitCase `xml:"testcase"`
}

type junitCase struct {
	Name    string        `xml:"name,attr"`
	Class   string        `xml:"classname,attr"`
	File    string        `xml:"file,attr"`
	Line    int           `xml:"line,attr"`
	Time    string        `xml:"time,attr"`
	Failure *junitFailure `xml:"failure"`
	Error   *junitFailure `xml:"error"`
}

type junitFailure struct {
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

// printJUnit prints a suite for each file, and one with an error for each fault.
func (t *testRun) printJUnit(out io.Writer) error {
	doc := junitSuites{}
	for _, f := range t.files {
		s := junitSuite{Name: f.Path}
		total := 0.0
		for i, r := range f.results {
			c := junitCase{Name: r.Case.Name, Class: f.Workflow, File: f.Path, Line: r.Case.Line, Time: seconds(f.took[i].Seconds())}
			total += f.took[i].Seconds()
			if len(r.Failures) > 0 {
				var b strings.Builder
				printFailures(&b, f.Path, r)
				c.Failure = &junitFailure{r.Failures[0].Message, b.String()}
				s.Failures++
			}
			s.Cases = append(s.Cases, c)
		}
		s.Tests, s.Time = len(s.Cases), seconds(total)
		doc.Suites = append(doc.Suites, s)
	}
	for _, x := range t.faults {
		doc.Suites = append(doc.Suites, junitSuite{Name: x.File, Tests: 1, Errors: 1, Time: seconds(0), Cases: []junitCase{
			{Name: "the file", Class: x.File, File: x.File, Line: x.Line, Time: seconds(0), Error: &junitFailure{x.Message, x.String()}},
		}})
	}
	for _, s := range doc.Suites {
		doc.Tests, doc.Failures, doc.Errors = doc.Tests+s.Tests, doc.Failures+s.Failures, doc.Errors+s.Errors
	}
	if _, err := io.WriteString(out, xml.Header); err != nil {
		return err
	}
	e := xml.NewEncoder(out)
	e.Indent("", "  ")
	if err := e.Encode(doc); err != nil {
		return err
	}
	_, err := io.WriteString(out, "\n")
	return err
}

func seconds(s float64) string { return strconv.FormatFloat(s, 'f', 6, 64) }

// printTAP prints the Test Anything Protocol, version 13.
func (t *testRun) printTAP(out io.Writer) {
	n := len(t.faults)
	for _, f := range t.files {
		n += len(f.results)
	}
	fmt.Fprintf(out, "TAP version 13\n1..%d\n", n)
	n = 0
	for _, x := range t.faults {
		n++
		fmt.Fprintf(out, "not ok %d - %s\n", n, tapText(x.String()))
	}
	for _, f := range t.files {
		for _, r := range f.results {
			n++
			verdict := "ok"
			if len(r.Failures) > 0 {
				verdict = "not ok"
			}
			fmt.Fprintf(out, "%s %d - %s: %s\n", verdict, n, tapText(f.Workflow), tapText(r.Case.Name))
			tapDiagnosis(out, f.Path, r)
		}
		if f.whole {
			fmt.Fprintf(out, "# %s: coverage: %s\n", Printable(f.Path), f.Coverage(f.results))
		}
	}
}

// tapDiagnosis prints the failures as the YAML block of a test point. JSON text is YAML.
func tapDiagnosis(out io.Writer, path string, r *wftest.Result) {
	if len(r.Failures) == 0 {
		return
	}
	fmt.Fprintln(out, "  ---")
	for _, f := range r.Failures {
		fmt.Fprintf(out, "  - {at: %q, message: %q, expected: %q, actual: %q}\n", path+":"+strconv.Itoa(f.Line), f.Message, f.Expected, f.Actual)
	}
	fmt.Fprintln(out, "  ...")
}

// tapText escapes what begins a directive.
func tapText(s string) string { return strings.ReplaceAll(Printable(s), "#", `\#`) }
