package run

import (
	"runtime"
	"strings"
)

// InBubble reports whether the calling goroutine is in a bubble of testing/synctest. The clock of a
// bubble stops while one of its goroutines waits for a file descriptor.
func InBubble() bool {
	var stack [128]byte
	return Bubble(string(stack[:runtime.Stack(stack[:], false)])) != ""
}

// Bubble returns the number of a goroutine's bubble from its stack, or "". The stack begins with a
// line such as "goroutine 7 [select (durable), 2 minutes, synctest bubble 3]:".
func Bubble(stack string) string {
	header, _, _ := strings.Cut(stack, "\n")
	_, after, _ := strings.Cut(header, ", synctest bubble ")
	if end := strings.IndexAny(after, " ]"); end >= 0 {
		return after[:end]
	}
	return ""
}
