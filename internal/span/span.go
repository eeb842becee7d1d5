// Package span begins spans of a trace where somebody wants them. What they are of, and who
// takes them, is the rooms' own and their users'.
package span

import (
	"context"
	"log/slog"
)

// Begin begins a span with a callback of a configuration. Without one there is nothing to end.
func Begin(ctx context.Context, with func(context.Context, string, ...slog.Attr) (context.Context, func(error)), name string, attributes ...slog.Attr) (context.Context, func(error)) {
	if with == nil {
		return ctx, func(error) {}
	}
	return with(ctx, name, attributes...)
}
