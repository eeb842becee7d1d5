package config

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"net/url"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"

	"github.com/podwright/podwright/examples/kubelet/node"
)

type commandLine struct {
	flags             Flags
	config, configDir string
	version           bool
	// fields are the fields of the configuration file that flags have set, in the file's format.
	fields   map[string]any
	warnings []string
	errs     []error
}

// parse parses the command line. It collects all invalid values; an unknown flag ends it.
func parse(args []string, out io.Writer) (*commandLine, error) {
	l := &commandLine{flags: Default().Flags, fields: map[string]any{}}
	fs := flag.NewFlagSet("kubelet", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	var names []string
	for _, s := range settings() {
		if s.flag != "" {
			fs.Var(&option{s, l}, s.flag, "")
			if s.class != removed {
				names = append(names, s.flag)
			}
		}
	}
	switch err := fs.Parse(hyphens(args)); {
	case errors.Is(err, flag.ErrHelp):
		return nil, errors.Join(err, writeUsage(out))
	case err != nil:
		return nil, errors.Join(append(l.errs, flagError(err, names))...)
	case l.version:
		_, err := fmt.Fprintln(out, "Kubernetes", node.Version)
		return nil, errors.Join(flag.ErrHelp, err)
	case fs.NArg() > 0:
		l.errs = append(l.errs, fmt.Errorf("argument %q: the kubelet takes flags only", fs.Arg(0)))
	}
	return l, errors.Join(l.errs...)
}

// hyphens replaces underscores in the names of flags, as upstream does.
func hyphens(args []string) []string {
	out := make([]string, len(args))
	for i, arg := range args {
		name, value, ok := strings.Cut(arg, "=")
		if strings.HasPrefix(name, "--") {
			name = strings.ReplaceAll(name, "_", "-")
		}
		if out[i] = name; ok {
			out[i] += "=" + value
		}
	}
	return out
}

// flagError rewrites an error of package flag. The values have been checked by options.
func flagError(err error, names []string) error {
	if name, ok := strings.CutPrefix(err.Error(), "flag needs an argument: -"); ok {
		return fmt.Errorf("--%s: needs a value", name)
	}
	name, ok := strings.CutPrefix(err.Error(), "flag provided but not defined: -")
	if !ok {
		return err
	}
	if similar := nearest(name, names); similar != "" {
		return fmt.Errorf("--%s: unknown flag; did you mean --%s?", name, similar)
	}
	return fmt.Errorf("--%s: unknown flag (--help lists all flags)", name)
}

// option is a flag on a command line. It implements flag.Value.
type option struct {
	*setting
	line *commandLine
}

// Set collects errors instead of returning them, so that all are reported at once.
func (o *option) Set(text string) error {
	err := o.set(text)
	if err == nil {
		return nil
	}
	if name := "--" + o.flag; !strings.HasPrefix(err.Error(), name) {
		err = fmt.Errorf("%s: %w", name, err)
	}
	o.line.errs = append(o.line.errs, err)
	return nil
}

func (o *option) String() string { return "" }

// IsBoolFlag implements an interface of package flag.
func (o *option) IsBoolFlag() bool {
	if o.field != "" {
		return typeAt(o.field).Kind() == reflect.Bool
	}
	return o.isSwitch
}

func (o *option) set(text string) (err error) {
	l := o.line
	if o.isPath && text != "" {
		if text, err = filepath.Abs(text); err != nil {
			return err
		}
	}
	switch {
	case o.class == removed:
		return errors.New(o.text)
	case o.field != "":
		value, err := o.value(text)
		if err == nil {
			add(l.fields, nested(o.field, value))
		}
		return err
	case o.parse != nil:
		return o.parse(&l.flags, text)
	case o.to != nil:
		return setVariable(o.to(l), text)
	case text == "" || o.isSwitch && text == "false":
	case o.class == refused:
		return fmt.Errorf("%s is not supported: %s", text, o.text)
	case !slices.Contains(l.warnings, o.warning()):
		l.warnings = append(l.warnings, o.warning())
	}
	return nil
}

// value parses the text of a flag as the value of its field.
func (s *setting) value(text string) (any, error) {
	if s.read != nil {
		return s.read(text)
	}
	sign := s.sign
	set(&sign, "=")
	return readValue(typeAt(s.field), text, sign, s.wanted())
}

func setVariable(to any, text string) error {
	v := reflect.ValueOf(to).Elem()
	value, err := readValue(v.Type(), text, "", describe(v.Type()))
	if err != nil {
		return err
	}
	if to, ok := to.(*time.Duration); ok {
		*to, err = time.ParseDuration(text)
		return err
	}
	v.Set(reflect.ValueOf(value).Convert(v.Type()))
	return nil
}

// read reads the configuration files and sets the fields of files and flags.
func (l *commandLine) read(c *Config) error {
	files := reader{fields: map[string]any{}}
	if err := files.readAll(l.config, l.configDir); err != nil {
		return err
	}
	if l.fields["staticPodURLHeader"] != nil { // flags replace all headers
		delete(files.fields, "staticPodURLHeader")
	}
	merge(files.fields, l.fields)
	c.Warnings = append(files.warnings, l.warnings...)
	if err := decode(files.fields, &c.Kubelet); err != nil {
		return err
	}
	_, port := files.fields["readOnlyPort"]
	c.freePort = !port && c.Kubelet.ContainerRuntimeEndpoint == Embedded && c.Flags.Kubeconfig == ""
	return nil
}

func nested(path string, value any) map[string]any {
	name, below, deeper := strings.Cut(path, ".")
	if deeper {
		return map[string]any{name: nested(below, value)}
	}
	return map[string]any{name: value}
}

// add merges fields into others. Repeated list flags such as --cluster-dns accumulate.
func add(to, fields map[string]any) {
	for name, value := range fields {
		switch value := value.(type) {
		case map[string]any:
			if below, ok := to[name].(map[string]any); ok {
				add(below, value)
				continue
			}
			to[name] = value
		case []any:
			before, _ := to[name].([]any)
			to[name] = append(before, value...)
		default:
			to[name] = value
		}
	}
}

func readHeaders(text string) (any, error) {
	out := map[string]any{}
	for _, pair := range list(text) {
		name, value, ok := strings.Cut(pair.(string), ":")
		if name = strings.TrimSpace(name); !ok || name == "" {
			return nil, errors.New("each pair must be name:value") // the error must not contain the value, which may be secret
		}
		before, _ := out[name].([]any)
		out[name] = append(before, strings.TrimSpace(value))
	}
	return out, nil
}

func readTaints(text string) (any, error) {
	taints, err := node.ParseTaints(text)
	out := make([]any, len(taints))
	for i, t := range taints {
		out[i] = map[string]any{"key": t.Key, "value": t.Value, "effect": string(t.Effect)}
	}
	return out, err
}

// Values returns the flags with their effective values, without flags that have no effect. Header
// values are masked, because they may be secret.
func (c *Config) Values() map[string]string {
	out := map[string]string{}
	for _, s := range settings() {
		if s.flag != "" && (s.class == implemented || s.field != "") && s.flag != "version" {
			out[s.flag] = s.effective(c)
		}
	}
	if address, err := url.Parse(c.Kubelet.StaticPodURL); err == nil {
		out["manifest-url"] = address.Redacted()
	}
	return out
}

// effective returns the value of a setting as text.
func (s *setting) effective(c *Config) string {
	switch {
	case s.field != "":
		return fieldText(&c.Kubelet, s.field)
	case s.show != nil:
		return s.show(&c.Flags)
	case s.to != nil:
		l := &commandLine{flags: c.Flags, config: c.files[0], configDir: c.files[1]}
		return fmt.Sprint(reflect.ValueOf(s.to(l)).Elem().Interface())
	}
	return ""
}

func fieldText(k *kubeletv1beta1.KubeletConfiguration, path string) string {
	if field, ok := fieldAt(reflect.ValueOf(k), path); ok {
		return showValue(field)
	}
	return ""
}

func joined[T any](values []T, text func(T) string) string {
	out := make([]string, len(values))
	for i, value := range values {
		out[i] = text(value)
	}
	return strings.Join(out, ",")
}

// writeUsage lists the flags by subject.
func writeUsage(w io.Writer) error {
	var b strings.Builder
	b.WriteString("Usage: kubelet [flags]\n\nA flag overrides the field of the configuration file that is named in brackets.\n")
	standard := Default()
	for _, g := range table() {
		if g.title == removedTitle {
			continue
		}
		fmt.Fprintf(&b, "\n%s:\n", g.title)
		for i := range g.settings {
			if s := &g.settings[i]; s.flag != "" {
				fmt.Fprintf(&b, "  --%s\n        %s\n", s.flag, s.usage(&standard))
			}
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// usage returns the line of a flag in --help.
func (s *setting) usage(standard *Config) string {
	text := map[class]string{noEffect: "no effect: ", refused: "only the default is supported: "}[s.class] + s.text
	text += s.values()
	if preset := s.defaultText(standard); preset != "" {
		text += " (default " + preset + ")"
	}
	if s.field != "" {
		text += " [" + s.field + "]"
	}
	return text
}

// values describes the allowed values of a setting for --help, or returns "" without narrow limits.
func (s *setting) values() string {
	switch {
	case s.allowed != nil:
		return "; values: " + strings.Join(s.allowed, ", ")
	case s.want == "" && s.limits != nil && (s.limits.max < math.MaxInt64 || s.limits.min > 1):
		return "; " + s.wanted()
	}
	return ""
}

// defaultText returns the default of a setting, or "" for an empty one.
func (s *setting) defaultText(standard *Config) string {
	if s.preset != "" {
		return s.preset
	}
	switch text := s.effective(standard); text {
	case "false", "0", "0s":
		return ""
	default:
		return text
	}
}
