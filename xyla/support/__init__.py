"""What every layer needs: element types, status codes, diagnostics, flags."""
