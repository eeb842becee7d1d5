// Package actions decides what to do with a pod.
package actions
