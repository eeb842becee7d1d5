package summary

import (
	"bufio"
	"io"
	"math"
	"strconv"
	"strings"
)

// writeText writes metrics in Prometheus' text format, byte for byte as package expfmt. expfmt
// builds an object for each metric and formats the same labels thirty times, so that writing ten
// thousand metrics would cost more than reading them.
func (f families) writeText(to io.Writer) error {
	w := bufio.NewWriterSize(to, 64<<10)
	var line []byte
	for _, family := range f.sorted() {
		line = family.header(line[:0])
		for i := range family.samples {
			line = family.samples[i].text(line, family.name)
			if _, err := w.Write(line); err != nil {
				return err
			}
			line = line[:0]
		}
	}
	return w.Flush()
}

var helpText, valueText = strings.NewReplacer(`\`, `\\`, "\n", `\n`), strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)

func (f *family) header(line []byte) []byte {
	line = append(line, "# HELP "...)
	line = append(line, f.name...)
	line = append(line, ' ')
	line = append(line, helpText.Replace(f.help)...)
	line = append(line, "\n# TYPE "...)
	line = append(line, f.name...)
	if f.counter {
		return append(line, " counter\n"...)
	}
	return append(line, " gauge\n"...)
}

func (s *sample) text(line []byte, name string) []byte {
	line = append(line, name...)
	if s.labels != nil {
		line = append(line, s.labels.text...)
	}
	line = number64(append(line, ' '), s.value)
	if s.at != 0 {
		line = strconv.AppendInt(append(line, ' '), s.at, 10)
	}
	return append(line, '\n')
}

func number64(line []byte, value float64) []byte {
	if value == math.Trunc(value) && math.Abs(value) < 1e6 { // same result as %g, but faster
		return strconv.AppendInt(line, int64(value), 10)
	}
	return strconv.AppendFloat(line, value, 'g', -1, 64)
}

func labelText(pairs [][2]string) string {
	if len(pairs) == 0 {
		return ""
	}
	text := []byte{'{'}
	for i, pair := range pairs {
		if i > 0 {
			text = append(text, ',')
		}
		text = append(text, pair[0]...)
		text = append(text, '=', '"')
		text = append(text, valueText.Replace(pair[1])...)
		text = append(text, '"')
	}
	return string(append(text, '}'))
}
