package oom

import (
	"strconv"
	"strings"
)

// Node is the cgroup of the whole node.
const Node = "/"

// Kill is a process killed because memory has run out.
type Kill struct {
	// PID and Process identify the victim. Process is its name as in ps(1), at most 15 bytes.
	PID     int
	Process string
	// Limit is the cgroup that ran out of memory: Node for the machine, "" if the log does not name
	// it.
	Limit string
	// Cgroup is the victim's cgroup, or "" if the log does not name it.
	Cgroup string
}

// OfNode reports whether the node, and not a cgroup, ran out of memory.
func (k Kill) OfNode() bool { return k.Limit == Node }

// Parser extracts kills from the lines of a kernel log. The zero value is ready for use.
type Parser struct {
	// about has the details of the next kill.
	about struct {
		// ofCgroup is true if a cgroup ran out of memory, even if its name is unknown.
		ofCgroup      bool
		limit, cgroup string
	}
}

const (
	begin   = " invoked oom-killer:"
	summary = "oom-kill:constraint="
	victim  = "Killed process "
	// legacy lines name the cgroups of the victim and of the limit in kernels before 5.0.
	legacyTask, legacyLimit = "Task in ", " killed as a result of limit of "
	memoryOfCgroup          = "Memory cgroup out of memory"
)

// Line parses the next line. ok reports whether it completes a kill.
func (p *Parser) Line(line string) (_ Kill, ok bool) {
	about := &p.about
	switch {
	case strings.Contains(line, begin):
		p.Reset()
		return Kill{}, false
	case strings.HasPrefix(line, summary):
		about.limit, about.cgroup = cgroups(line)
		about.ofCgroup = about.limit != ""
		return Kill{}, false
	case strings.HasPrefix(line, legacyTask):
		if cgroup, limit, found := strings.Cut(strings.TrimPrefix(line, legacyTask), legacyLimit); found {
			about.cgroup, about.limit, about.ofCgroup = cgroup, limit, true
		}
		return Kill{}, false
	}
	about.ofCgroup = about.ofCgroup || strings.HasPrefix(line, memoryOfCgroup)
	k, ok := killed(line)
	if !ok {
		return Kill{}, false
	}
	k.Limit, k.Cgroup = about.limit, about.cgroup
	if !about.ofCgroup {
		k.Limit = Node
	}
	p.Reset()
	return k, true
}

// Reset discards an incomplete kill. Call it when lines are missing.
func (p *Parser) Reset() { *p = Parser{} }

// cgroups returns the cgroups of the limit ("" for the node) and of the victim from the summary
// line of a kill. It relies on the order of fields, because names of cgroups may have commas.
func cgroups(line string) (limit, cgroup string) {
	_, rest, found := strings.Cut(line, ",oom_memcg=")
	if found {
		limit, rest, found = strings.Cut(rest, ",task_memcg=")
	} else {
		_, rest, found = strings.Cut(line, ",task_memcg=")
	}
	if found {
		cgroup, _, _ = strings.Cut(rest, ",task=")
	}
	return limit, cgroup
}

// killed parses the line about the victim, whose name may contain any character, also brackets.
func killed(line string) (k Kill, ok bool) {
	_, rest, found := strings.Cut(line, victim)
	if !found {
		return k, false
	}
	number, rest, found := strings.Cut(rest, " (")
	if !found {
		return k, false
	}
	end := strings.LastIndexByte(rest, ')')
	pid, err := strconv.Atoi(number)
	if err != nil || pid <= 0 || end < 0 {
		return k, false
	}
	return Kill{PID: pid, Process: rest[:end]}, true
}
