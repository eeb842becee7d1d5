package oom

import (
	"bytes"
	"strconv"
)

// text is what a record of /dev/kmsg says, without what belongs to it ("PRIORITY,NUMBER,TIME,FLAGS;TEXT"
// and a line for each attribute). ok is false for what is none, and for what a process has written.
func text(record []byte) (_ string, ok bool) {
	head, body, found := bytes.Cut(record, []byte{';'})
	if !found {
		return "", false
	}
	first, _, found := bytes.Cut(head, []byte{','})
	priority, err := strconv.ParseUint(string(first), 10, 32)
	if !found || err != nil || priority>>levelBits != kernelFacility {
		return "", false
	}
	line, _, _ := bytes.Cut(body, []byte{'\n'})
	return string(line), true
}

// A priority is a facility and a level, as with syslog(3). The kernel's facility is nobody
// else's to use.
const (
	levelBits      = 3
	kernelFacility = 0
)
