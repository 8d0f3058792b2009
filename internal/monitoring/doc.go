// Package monitoring writes the files by which Prometheus and Grafana watch the engine: alert rules, what to do about each alert, and a dashboard.
// One table holds the rules, so that the files always agree.
package monitoring
