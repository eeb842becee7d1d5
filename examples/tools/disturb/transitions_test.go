package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDiff(t *testing.T) {
	type reads []objects
	node := func(fields ...string) objects { // text and version by field
		all := map[string]value{existence: {version: "1"}}
		for i := 0; i < len(fields); i += 3 {
			all[fields[i]] = value{text: fields[i+1], version: fields[i+2]}
		}
		return objects{"node": all}
	}
	other := node("Ready", "False", "2")
	other["node"][existence] = value{version: "2"}
	for name, c := range map[string]struct {
		reads reads
		want  []string
	}{
		"first read":                 {reads{node("Ready", "True", "1")}, []string{"node: absent → present"}},
		"no change":                  {reads{node("Ready", "True", "1"), node("Ready", "True", "1")}, nil},
		"change":                     {reads{node("Ready", "True", "1"), node("Ready", "False", "2")}, []string{"node, Ready: True → False"}},
		"change between reads":       {reads{node("Ready", "True", "1"), node("Ready", "True", "2")}, []string{"node, Ready: True → True again"}},
		"version becomes available":  {reads{node("IP", "set", ""), node("IP", "set", "2")}, nil},
		"new field":                  {reads{node(), node("taint", "set", "")}, []string{"node, taint: none → set"}},
		"field removed":              {reads{node("taint", "set", ""), node()}, []string{"node, taint: set → none"}},
		"sorted":                     {reads{node("b", "1", "", "a", "1", ""), node("b", "2", "", "a", "2", "")}, []string{"node, a: 1 → 2", "node, b: 1 → 2"}},
		"object removed":             {reads{node("Ready", "True", "1"), {}}, []string{"node: present → absent"}},
		"object remains absent":      {reads{node("Ready", "True", "1"), {}, {}}, nil},
		"object returns":             {reads{node("Ready", "True", "1"), {}, node("Ready", "True", "1")}, []string{"node: absent → present"}},
		"other object, other fields": {reads{node("Ready", "True", "1"), {}, other}, []string{"node: absent → present", "node, Ready: True → False"}},
		"replaced between reads":     {reads{node("Ready", "False", "2"), other}, []string{"node: present → present again"}},
	} {
		t.Run(name, func(t *testing.T) {
			var state objects
			var found []transition
			for _, read := range c.reads {
				found, state = diff(state, read)
			}
			require.Equal(t, c.want, texts(found))
		})
	}
}

func texts(all []transition) (out []string) {
	for _, t := range all {
		out = append(out, t.String())
	}
	return out
}

func TestExtra(t *testing.T) {
	ready := func(from, to string) transition {
		return transition{Object: "node", Field: "Ready", From: from, To: to}
	}
	for name, c := range map[string]struct {
		ours, upstream []transition
		want           []string
	}{
		"equal":                            {[]transition{ready("True", "False")}, []transition{ready("True", "False")}, nil},
		"absent from upstream":             {[]transition{ready("True", "False")}, []transition{ready("True", "Unknown")}, []string{"node, Ready: True → False"}},
		"more often":                       {[]transition{ready("True", "False"), ready("True", "False")}, []transition{ready("True", "False")}, nil},
		"more of upstream":                 {nil, []transition{ready("True", "False")}, nil},
		"upstream's is visible":            {[]transition{ready("True", "True again")}, []transition{ready("True", "False")}, nil},
		"upstream's is between two reads":  {[]transition{ready("True", "False")}, []transition{ready("True", "True again")}, []string{"node, Ready: True → False"}},
		"upstream's left another value":    {[]transition{ready("True", "True again")}, []transition{ready("False", "True")}, []string{"node, Ready: True → True again"}},
		"the same field of another object": {[]transition{ready("True", "False")}, []transition{{Object: "pod web", Field: "Ready", From: "True", To: "False"}}, []string{"node, Ready: True → False"}},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.want, texts(extra(c.ours, c.upstream))) })
	}
}
