package oom

import (
	"bytes"
	"strconv"
)

// text returns the text of a record of /dev/kmsg ("PRIORITY,NUMBER,TIME,FLAGS;TEXT", then a line
// per attribute). ok is false for invalid records and records that a process wrote.
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

// A priority is a facility and a level, as in syslog(3). Only the kernel can use its facility.
const (
	levelBits      = 3
	kernelFacility = 0
)
