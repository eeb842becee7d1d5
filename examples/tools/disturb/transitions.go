package main

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"
)

// value is the state of one field of an object.
type value struct {
	text   string
	detail string // the reason; not compared
	// version differs if the field has changed and changed back. Optional.
	version string
}

// objects are the fields of objects by the object's name and the field's name.
type objects map[string]map[string]value

// existence is the field with the existence of an object: present or absent. Its version is the UID.
const (
	existence = ""
	present   = "present"
	absent    = "absent"
	none      = "none" // the text of a missing field
	again     = " again"
)

type transition struct {
	After                   time.Duration // since the start of the disturbance
	Object, Field, From, To string
	Detail                  string
}

func (t transition) String() string {
	name := t.Object
	if t.Field != existence {
		name += ", " + t.Field
	}
	return name + ": " + t.From + " → " + t.To
}

// diff returns the transitions between two reads, sorted, and the state to compare with the next
// read. An absent object keeps its last fields, so that a new object of the same name is compared
// with them. Fields of an object that appears for the first time are no transitions.
func diff(before, after objects) (found []transition, now objects) {
	now = objects{}
	for name, fields := range before {
		gone := maps.Clone(fields)
		gone[existence] = value{text: absent, version: fields[existence].version}
		now[name] = gone
	}
	for name, fields := range after {
		now[name] = maps.Clone(fields)
		is := fields[existence]
		is.text = present
		now[name][existence] = is
	}
	for name, fields := range now {
		was, existed := before[name]
		if !existed {
			found = append(found, transition{Object: name, From: absent, To: present})
			continue
		}
		all := maps.Clone(was)
		maps.Copy(all, fields)
		for field := range all {
			if t, changed := change(was[field], fields[field]); changed {
				t.Object, t.Field = name, field
				found = append(found, t)
			}
		}
	}
	slices.SortFunc(found, func(a, b transition) int {
		return cmp.Or(cmp.Compare(a.Object, b.Object), cmp.Compare(a.Field, b.Field))
	})
	return found, now
}

func change(was, is value) (transition, bool) {
	t := transition{From: cmp.Or(was.text, none), To: cmp.Or(is.text, none), Detail: is.detail}
	if t.From == t.To {
		if was.version == is.version || was.version == "" || is.version == "" {
			return t, false
		}
		t.To += again
	}
	return t, true
}

// extra returns the transitions of ours that upstream's lack. The number of equal transitions and
// their times do not matter. A change between two reads counts as present if upstream's field left
// the same value.
func extra(ours, upstream []transition) (out []transition) {
	have := map[string]bool{}
	for _, t := range upstream {
		have[t.String()] = true
		have[transition{Object: t.Object, Field: t.Field, From: t.From, To: t.From + again}.String()] = true
	}
	for _, t := range ours {
		if !have[t.String()] {
			out = append(out, t)
		}
	}
	return out
}

// restarts returns the number of starts of containers.
func restarts(all []transition) (n int) {
	for _, t := range all {
		container := strings.HasPrefix(t.Field, containerField)
		if container && (t.To == stateRunning || t.To == stateRunning+again) {
			n++
		}
	}
	return n
}
