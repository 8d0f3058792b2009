package main

import (
	"github.com/sagalog/sagalog/internal/monitoring"
	"github.com/spf13/cobra"
)

// generateMonitoring are the commands that print files for Prometheus and Grafana.
func generateMonitoring() []*cobra.Command {
	prints := func(use, short, example string, text func() []byte) *cobra.Command {
		return &cobra.Command{Use: use, Short: short, Args: cobra.NoArgs, Example: "  " + example, RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := cmd.OutOrStdout().Write(text())
			return err
		}}
	}
	return []*cobra.Command{
		prints("alert-rules", "Print alert rules for Prometheus", "sagalog generate alert-rules > alerts.yaml", func() []byte { return monitoring.AlertRules(monitoring.Options{}) }),
		prints("dashboard", "Print a dashboard for Grafana", "sagalog generate dashboard > sagalog.json", monitoring.Dashboard),
	}
}
