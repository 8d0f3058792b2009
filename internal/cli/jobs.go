package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
	"github.com/sagalog/sagalog/internal/pause"
	"github.com/spf13/cobra"
)

func jobCommand() *cobra.Command {
	get := output(&cobra.Command{
		Use: "get ID", Aliases: []string{"show"}, Short: "Read a job", Args: cobra.ExactArgs(1),
		Long:    "Read a job. With --wait the command shows the progress until the job has ended; then the exit code is 4 if a task refused, 6 if the job was stopped.",
		Example: "  sagalog job get 019ab2f0-5c1e-7a53-8d7e-3b0c1f2a4d5e --wait",
		RunE: jobClient(func(s jobCaller, args []string) error {
			if s.isSet("wait") {
				return s.follow(args[0])
			}
			doc, job, err := s.job(args[0])
			if err != nil {
				return err
			}
			return s.one(doc, func(w io.Writer) error { return showJob(w, job) })
		}),
	})
	get.Flags().Bool("wait", false, "wait until the job has ended")
	results := output(&cobra.Command{
		Use: "results ID", Short: "Show what became of each task of a job", Args: cobra.ExactArgs(1),
		Example: "  sagalog job results 019ab2f0-5c1e-7a53-8d7e-3b0c1f2a4d5e --result refused --all",
		RunE:    jobClient(func(s jobCaller, args []string) error { return s.jobResults(args[0]) }),
	})
	f := results.Flags()
	f.String("result", "", "granted or refused (default: both)")
	f.Int("limit", 1000, "tasks that a page examines, up to 1000; with --result it lists those that match")
	f.String("cursor", "", "continue after an earlier page")
	f.Bool("all", false, "all pages")
	suggest(results, "result", "granted", "refused")
	stop := output(&cobra.Command{
		Use: "stop ID", Short: "Stop a job: it makes no further requests", Args: cobra.ExactArgs(1),
		RunE: jobClient(func(s jobCaller, args []string) error { return s.stopJob(args[0]) }),
	})
	stop.Flags().String("reason", "", "why, for the record")
	stop.Flags().String("by", "", "who stops it, for the record")
	g := group("job", "Read, follow and stop jobs: a job makes one request for many tasks", output(&cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List jobs, newest first", Args: cobra.NoArgs,
		RunE: client(func(s *session, _ []string) error {
			return s.whole("/v1/jobs", "jobs", listing{none: "there are no jobs", head: row{"ID", "VERB", "STATE", "MATCHED", "GRANTED", "REFUSED", "LEFT", "STARTED", "BY"}, cells: rowOf(jobRow)})
		}),
	}), get, results, stop)
	g.Aliases = []string{"jobs"}
	return g
}

// jobCaller is a session that opens, reads and stops jobs.
type jobCaller struct{ *session }

func jobClient(run func(s jobCaller, args []string) error) func(*cobra.Command, []string) error {
	return client(func(s *session, args []string) error { return run(jobCaller{s}, args) })
}

func jobRow(j api.JobDocument) row {
	return row{j.ID, string(j.Verb), j.State, strconv.Itoa(j.Matched), strconv.Itoa(j.Granted), strconv.Itoa(j.Refused), strconv.Itoa(j.Left), instant(j.StartedAt), j.By}
}

func showJob(w io.Writer, j *api.JobDocument) error {
	filter, err := events.Marshal(j.Filter)
	if err != nil {
		return err
	}
	all := []row{
		{"JOB", j.ID}, {"VERB", string(j.Verb)}, {"ARGS", string(j.Args)}, {"FILTER", string(filter)}, {"REASON", j.Reason}, {"BY", j.By}, {"RATE", j.Rate},
		{"STATE", j.State}, {"STOPPED BY", j.StoppedBy}, {"MATCHED", strconv.Itoa(j.Matched)}, {"GRANTED", strconv.Itoa(j.Granted)}, {"REFUSED", strconv.Itoa(j.Refused)},
		{"LEFT", strconv.Itoa(j.Left)}, {"STARTED", instant(j.StartedAt)}, {"ENDED", instant(j.EndedAt)},
	}
	rows := all[:0]
	for _, r := range all {
		if r[1] != "" {
			rows = append(rows, r)
		}
	}
	return table(w, nil, rows)
}

func jobPath(id string) string { return "/v1/jobs/" + url.PathEscape(id) }

func (s jobCaller) job(id string) (json.RawMessage, *api.JobDocument, error) {
	doc, err := s.get(s.cmd.Context(), jobPath(id), nil)
	if err != nil {
		return nil, nil, err
	}
	job := new(api.JobDocument)
	return doc, job, decode(doc, job)
}

func (s jobCaller) stopJob(id string) error {
	doc, err := s.change(s.cmd.Context(), http.MethodPost, jobPath(id)+"/stop", api.JobStopBody{Reason: s.flag("reason"), By: s.flag("by")})
	if err != nil {
		return err
	}
	var job api.JobDocument
	if err := decode(doc, &job); err != nil {
		return err
	}
	return s.one(doc, func(w io.Writer) error { return showJob(w, &job) })
}

func (s jobCaller) jobResults(id string) error {
	q := url.Values{}
	for _, name := range []string{"result", "limit", "cursor"} {
		if v := s.flag(name); v != "" {
			q.Set(name, v)
		}
	}
	return s.pages(jobPath(id)+"/results", q, "results", listing{none: "the job has no such results", head: row{"TASK", "RESULT", "REASON"}, cells: rowOf(func(r api.JobResult) row { return row{r.Task, r.Result, r.Reason} })})
}

// jobLook is how often the progress of a job is read. The engine records it every two seconds at most.
const jobLook = 500 * time.Millisecond

// follow shows the progress of a job until it has ended, and then its counts.
func (s jobCaller) follow(id string) error {
	bar := newCount(s.err, "asking tasks")
	defer bar.abort()
	retry := backoff{}
	for {
		doc, job, err := s.job(id)
		switch {
		case s.cmd.Context().Err() != nil:
			return exit(ExitStillRunning, "stopped watching; the job goes on: %s", following(id))
		case err != nil && isPassing(err):
			if retry.pause(s.cmd.Context()) != nil {
				return exit(ExitStillRunning, "stopped watching; the job goes on: %s", following(id))
			}
			continue
		case err != nil:
			return err
		}
		retry.reset()
		bar.set(job.Granted+job.Refused, job.Matched)
		if job.EndedAt != 0 {
			bar.done()
			return s.ended(doc, job)
		}
		pause.For(s.cmd.Context(), jobLook)
	}
}

func following(id string) string {
	return fmt.Sprintf("`sagalog job get %s --wait` follows it, `sagalog job stop %s` stops it", id, id)
}

// shownRefusals is how many refusals are printed after a job.
const shownRefusals = 10

// ended prints a job that has ended, and the first refusals.
func (s jobCaller) ended(doc json.RawMessage, job *api.JobDocument) error {
	err := s.one(doc, func(w io.Writer) error {
		return table(w, row{"JOB", "STATE", "GRANTED", "REFUSED", "LEFT"}, []row{{job.ID, job.State, strconv.Itoa(job.Granted), strconv.Itoa(job.Refused), strconv.Itoa(job.Left)}})
	})
	if err == nil && job.Refused > 0 {
		err = s.refusals(job.ID)
	}
	switch {
	case err != nil:
		return err
	case job.State == "stopped":
		return exit(ExitEndedBadly, "the job was stopped by %s when %s had not been asked; open another one with the same filter to ask the rest",
			cmp.Or(Printable(job.StoppedBy), "an operator"), Counted(job.Left, "task"))
	case job.Refused > 0:
		return exit(ExitConflict, "%s refused; `sagalog job results %s --result refused --all` lists them", Counted(job.Refused, "task"), job.ID)
	}
	return nil
}

// refusals prints the first refusals of a job.
func (s jobCaller) refusals(id string) error {
	p, err := s.page(jobPath(id)+"/results", url.Values{"result": {"refused"}, "limit": {"1"}}, "results")
	if err != nil {
		return err
	}
	for _, doc := range p.items[:min(len(p.items), shownRefusals)] {
		var r api.JobResult
		if err := decode(doc, &r); err != nil {
			return err
		}
		s.note("%s: %s", r.Task, r.Reason)
	}
	return nil
}
