package logs

import (
	"io"
	"time"
)

// flushAt is the amount of output, in bytes, that is gathered for one Write.
const flushAt = 32 << 10

// printer formats lines of a file as output. flush writes its buffer.
type printer struct {
	writers    [2]io.Writer // of stdout and stderr; nil drops the stream
	since      time.Time
	timestamps bool
	limited    bool
	left       int64 // remaining output in bytes, if limited

	inside [2]bool // the stream is within a line
	out    []byte  // buffer, for one stream
	to     int     // index of that stream
}

func newPrinter(o Options, now time.Time, stdout, stderr io.Writer) *printer {
	return &printer{
		writers:    [2]io.Writer{stdout, stderr},
		since:      o.since(now),
		timestamps: o.Timestamps,
		limited:    o.LimitBytes > 0,
		left:       o.LimitBytes,
	}
}

// begin writes zero bytes to each writer, so that headers of a response are sent before the first
// line.
func (p *printer) begin() error {
	for _, w := range p.writers {
		if w != nil {
			if _, err := w.Write([]byte{}); err != nil {
				return err
			}
		}
	}
	return nil
}

func (p *printer) full() bool { return p.limited && p.left <= 0 }

// line processes a physical line, or a piece of one. whole means that its end is included: it adds
// a newline unless the runtime has split the line there.
func (p *printer) line(l Line, whole bool) error {
	i := 0
	if l.Stream == Stderr {
		i = 1
	}
	if p.writers[i] == nil || p.full() {
		return nil
	}
	// The first part decides about the age, so that a line is not cut.
	if !p.inside[i] && !p.since.IsZero() && l.Timestamp.Before(p.since) {
		return nil
	}
	if i != p.to || len(p.out) >= flushAt {
		if err := p.flush(); err != nil {
			return err
		}
		p.to = i
	}
	before := len(p.out)
	if p.timestamps && !p.inside[i] {
		p.out = append(appendStamp(p.out, l.Timestamp), ' ')
	}
	p.out = append(p.out, l.Content...)
	p.inside[i] = l.Partial || !whole
	if !p.inside[i] {
		p.out = append(p.out, '\n')
	}
	p.count(before)
	return nil
}

// count truncates the output after the first before bytes to the limit.
func (p *printer) count(before int) {
	if !p.limited {
		return
	}
	if added := int64(len(p.out) - before); added > p.left {
		p.out = p.out[:before+int(p.left)]
	}
	p.left -= int64(len(p.out) - before)
}

func (p *printer) flush() error {
	if len(p.out) == 0 {
		return nil
	}
	out := p.out
	p.out = p.out[:0]
	_, err := p.writers[p.to].Write(out)
	return err
}

// appendStamp appends the time with nine decimal digits, so that columns line up. The result
// equals the layout 2006-01-02T15:04:05.000000000Z07:00, in a third of the time.
func appendStamp(to []byte, t time.Time) []byte {
	const seconds, digits = len("2006-01-02T15:04:05"), 9
	begin := len(to)
	to = t.AppendFormat(to, time.RFC3339)
	var zone [len("+07:00")]byte
	n := copy(zone[:], to[begin+seconds:])
	to = append(to[:begin+seconds], ".000000000"...)
	for i, rest := digits, t.Nanosecond(); rest > 0; i-- {
		to[begin+seconds+i] += byte(rest % 10)
		rest /= 10
	}
	return append(to, zone[:n]...)
}
