// Package podstatus operates on a v1.PodStatus for package status, which computes it, and package
// status/writer, which stores and writes it: normal form, comparison, merging, legal transitions,
// readiness, and the end of a pod.
//
// All functions are pure and safe for concurrent use.
package podstatus
