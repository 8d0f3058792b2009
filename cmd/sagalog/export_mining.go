package main

import (
	"github.com/sagalog/sagalog/internal/export"
	"github.com/spf13/cobra"
)

const miningHelp = `

Attempts, waits and steps with items start, and then complete or abort (ate_abort: failed or timed out). Most other events only complete, such as task parked. Times are by the clock
of the partition's owner. Inputs, outputs, messages of errors and reasons are left out. The command folds the log in a directory below --to, which it removes. --since and
--until are about the time of submission.

The log of a running or stopped cluster is on --brokers; that of a stopped ` + "`sagalog dev`" + ` is in --data (a running one is a broker too: give the address that it
prints). The export ends where the log ended when it began. The same range gives the same bytes. If you interrupt the command, repeat it with the same flags: it continues
after the last complete partition.`

func exportXESCommand() *cobra.Command {
	var c exportConfig
	cmd := &cobra.Command{
		Use: "xes", Short: "Export the history for process mining: XES (IEEE 1849)", Args: cobra.NoArgs,
		Long: `Export the history to DIR/xes/log.xes, for pm4py and other programs. Each run of a task is a trace, named TASK or TASK#RUN. The activity of an event is the
step, "STEP (undo)" for its undo, or what happened to the task; its resource is the instance of the agent or the operator.` + miningHelp,
		Example: `  sagalog export xes --brokers k1:9092 --to ./history
  sagalog export xes --data ./sagalog-data --to ./orders --workflow order --since 720h`,
		RunE: func(cmd *cobra.Command, _ []string) error { return c.run(cmd, export.XES) },
	}
	c.flags(cmd.Flags())
	return cmd
}

func exportOCELCommand() *cobra.Command {
	var c exportConfig
	cmd := &cobra.Command{
		Use: "ocel", Short: "Export the history for object-centric process mining: OCEL 2.0 (JSON)", Args: cobra.NoArgs,
		Long: `Export the history to DIR/ocel/log.ocel.json, for pm4py and other programs. The types of objects are task (a run of one), step, agent and workflow, and each label that
--object names: its values are objects. The type of an event is its activity: the step, "STEP (undo)" for its undo, or what happened to the task. Its attribute lifecycle says
whether that started, completed or was aborted.` + miningHelp,
		Example: `  sagalog export ocel --brokers k1:9092 --to ./history --object customer
  sagalog export ocel --data ./sagalog-data --to ./orders --workflow order --object customer,region`,
		RunE: func(cmd *cobra.Command, _ []string) error { return c.run(cmd, export.OCEL) },
	}
	c.flags(cmd.Flags())
	cmd.Flags().StringSliceVar(&c.objects, "object", nil, "labels whose values are objects, such as customer, separated by commas")
	return cmd
}
