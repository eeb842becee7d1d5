// Package podstatus has the operations on a v1.PodStatus that package status, which
// computes it, shares with package status/writer, which keeps and writes it: its normal
// form, comparison, merging, legal transitions, readiness, and the end of a pod.
//
// All functions are pure and safe for concurrent use.
package podstatus
