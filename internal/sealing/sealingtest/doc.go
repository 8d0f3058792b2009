// Package sealingtest opens keys for the tests of those who seal.
package sealingtest
