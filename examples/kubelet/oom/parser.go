package oom

import (
	"strconv"
	"strings"
)

// Node is the cgroup of the whole node.
const Node = "/"

// Kill is a process that was killed since memory had run out.
type Kill struct {
	// PID and Process are the victim's. Process is its name as ps(1) shows it, at most 15 bytes.
	PID     int
	Process string
	// Limit is the cgroup whose memory had run out: Node for that of the machine, "" for one
	// that the log does not name.
	Limit string
	// Cgroup is the victim's, "" if the log does not tell.
	Cgroup string
}

// OfNode tells whether the memory of the node had run out, and not that of a cgroup.
func (k Kill) OfNode() bool { return k.Limit == Node }

// Parser finds kills in the lines of a kernel's log. The zero value begins between two.
type Parser struct {
	// about is what was said of the kill that comes next.
	about struct {
		// ofCgroup: of a cgroup that may have a name.
		ofCgroup      bool
		limit, cgroup string
	}
}

const (
	begin   = " invoked oom-killer:"
	summary = "oom-kill:constraint="
	victim  = "Killed process "
	// legacy stands between the cgroups of the victim and of the limit in kernels before 5.0.
	legacyTask, legacyLimit = "Task in ", " killed as a result of limit of "
	memoryOfCgroup          = "Memory cgroup out of memory"
)

// Line takes in the next line. ok tells whether it completes a kill.
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

// Reset forgets what was begun, since lines are missing.
func (p *Parser) Reset() { *p = Parser{} }

// cgroups finds those of the limit ("" for the node's) and of the victim in the summary of a
// kill. Names of cgroups may have commas: fields stand in an order.
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

// killed reads the line about the victim. Its name may have brackets and all else.
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
