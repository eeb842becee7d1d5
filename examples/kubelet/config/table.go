package config

import (
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// class is the treatment of a setting that differs from its default.
type class int

const (
	// implemented settings have their upstream effect.
	implemented class = iota
	// noEffect settings change no behaviour, here or in upstream on a CRI runtime. They cause a
	// warning.
	noEffect
	// refused settings need isolation, safety or accounting that this kubelet lacks.
	refused
	// removed flags are flags of earlier Kubernetes versions.
	removed
)

// A setting is a row of the table: a field of the configuration file, a flag, or a flag that sets a
// field.
type setting struct {
	// field is the path of the field, such as "authorization.mode". flag is the name of the flag,
	// without hyphens in front.
	field, flag string
	class       class
	// text describes an implemented setting. For other classes it is the reason.
	text string
	// preset describes a default that is not in Default.
	preset string
	// limits are the limits of a number, or of a duration in nanoseconds. Optional.
	limits *limits
	// want describes the values of a number in errors. Default: by type and limits.
	want string
	// allowed are the possible values of a text. Default: any.
	allowed []string
	// isPath marks paths. They are relative to their file or, for a flag, to the working folder.
	isPath bool
	// isSwitch allows a flag without a field to have no value, which means true.
	isSwitch bool
	// sign separates key and value in a flag. Default: "=".
	sign string
	// read parses the flag of a field with a special format. Optional.
	read func(text string) (any, error)
	// to returns the variable of an implemented flag without a field, a pointer to a string, bool,
	// int or Duration.
	to func(*commandLine) any
	// parse and show replace to for special formats.
	parse func(f *Flags, text string) error
	show  func(f *Flags) string
}

// limits has math.MaxInt64 as max if there is no upper limit.
type limits struct{ min, max int64 }

func atLeast(n int64) *limits       { return &limits{n, math.MaxInt64} }
func within(min, max int64) *limits { return &limits{min, max} }

// group contains the settings of one subject.
type group struct {
	title    string
	settings []setting
}

const removedTitle = "Removed flags"

// table returns all settings, by subject. The behaviour of each setting, its messages, --help and
// docs/flags-and-fields.md follow from it. Feature gates are in gatelist.txt.
func table() []group {
	return []group{
		{"Configuration files and folders", fileSettings},
		{"The node and its API server", nodeSettings},
		{"Pods and their sources", podSettings},
		{"The runtime, images and containers", runtimeSettings},
		{"The kubelet API and access to it", serverSettings},
		{"Resources of the node", resourceSettings},
		{"The process and its log", processSettings},
		{"cAdvisor", cadvisorSettings},
		{removedTitle, removedSettings},
	}
}

// settings returns the rows of the table without their groups.
func settings() (out []*setting) {
	for _, g := range table() {
		for i := range g.settings {
			out = append(out, &g.settings[i])
		}
	}
	return out
}

// name returns the names of a setting for messages, such as "maxPods (--max-pods)".
func (s *setting) name() string {
	switch {
	case s.field == "":
		return "--" + s.flag
	case s.flag == "":
		return s.field
	}
	return s.field + " (--" + s.flag + ")"
}

// wanted describes the allowed values of a field, for errors.
func (s *setting) wanted() string {
	t := typeAt(s.field)
	text := describe(t)
	show := func(n int64) string { return strconv.FormatInt(n, 10) }
	if isDuration(t) {
		text, show = "a duration", func(n int64) string { return time.Duration(n).String() }
	}
	switch {
	case s.want != "":
		return s.want
	case s.limits == nil:
		return describe(t)
	case s.limits.max < math.MaxInt64:
		return text + " from " + show(s.limits.min) + " to " + show(s.limits.max)
	case s.limits.min == 1 && isDuration(t):
		return "a positive duration"
	}
	return text + " of at least " + show(s.limits.min)
}

// exceeds reports whether a value is outside of the limits.
func (l *limits) exceeds(v reflect.Value) bool {
	n := int64(0)
	switch v = reflect.Indirect(v); {
	case l == nil || !v.IsValid(): // no limits, or no value
		return false
	case v.CanInt():
		n = v.Int()
	default:
		n = int64(durationOf(v))
	}
	return n < l.min || n > l.max
}

// warning returns the warning about a setting without effect.
func (s *setting) warning() string { return s.name() + ": no effect: " + s.text }

// classify checks the values of fields and compares them with the defaults. It adds a warning for
// each setting without effect and returns an error for each refused one.
func (c *Config) classify() (errs problems) {
	standard := Default()
	for _, s := range settings() {
		if s.field == "" {
			continue
		}
		got, ok := fieldAt(reflect.ValueOf(&c.Kubelet), s.field)
		preset, _ := fieldAt(reflect.ValueOf(&standard.Kubelet), s.field)
		if !ok || isEmpty(got) && isEmpty(preset) {
			continue
		}
		switch value := asJSON(got.Interface()); {
		case value == asJSON(preset.Interface()):
		case s.limits.exceeds(got):
			errs = append(errs, fmt.Errorf("%s: %s is not %s", s.name(), showValue(got), s.wanted()))
		case s.allowed != nil && !contains(s.allowed, value):
			errs = append(errs, fmt.Errorf("%s: %s must be one of %s", s.name(), value, strings.Join(s.allowed, ", ")))
		case s.class == noEffect:
			c.Warnings = append(c.Warnings, s.warning())
		case s.class == refused:
			errs = append(errs, fmt.Errorf("%s: %s is not supported: %s", s.name(), value, s.text))
		}
	}
	return errs
}

// contains reports whether a list contains a value that is given as JSON.
func contains(list []string, value string) bool {
	for _, one := range list {
		if asJSON(one) == value {
			return true
		}
	}
	return false
}

// nearest returns the candidate with the fewest different letters, or "" if none is similar.
func nearest(name string, candidates []string) (best string) {
	least := max(2, len(name)/3) + 1
	for _, candidate := range candidates {
		last := candidate[strings.LastIndexByte(candidate, '.')+1:]
		if d := min(distance(name, candidate), distance(name, last)); d < least {
			best, least = candidate, d
		}
	}
	return best
}

// distance returns the Levenshtein distance of two names, ignoring case.
func distance(a, b string) int {
	a, b = strings.ToLower(a), strings.ToLower(b)
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range a {
		diagonal := row[0]
		row[0] = i + 1
		for j := range b {
			changed := diagonal
			if a[i] != b[j] {
				changed++
			}
			diagonal = row[j+1]
			row[j+1] = min(changed, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
