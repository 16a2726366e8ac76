/* JSON as the agent writes it: ASCII, with escapes for everything else. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shim.h"

char log_path[PATH_ROOM];

void fail(const char *what) {
    const char *why = strerror(errno);
    int log = *log_path ? open(log_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600) : 2;
    dprintf(log, "%s: %s\n", what, why);
    _exit(1);
}

void *allocate(size_t size) {
    void *found = calloc(1, size ? size : 1);
    if (!found) fail("memory");
    return found;
}

void put(Buffer *buffer, const void *content, size_t length) {
    if (buffer->length + length + 1 > buffer->room) {
        buffer->room = 2 * (buffer->length + length + 1);
        buffer->content = realloc(buffer->content, buffer->room);
        if (!buffer->content) fail("memory");
    }
    memcpy(buffer->content + buffer->length, content, length);
    buffer->length += length;
    buffer->content[buffer->length] = 0;
}

void put_format(Buffer *buffer, const char *format, ...) {
    char *text = NULL;
    va_list values;
    va_start(values, format);
    int length = vasprintf(&text, format, values);
    va_end(values);
    if (length < 0) fail("memory");
    put(buffer, text, length);
    free(text);
}

/* The length of the UTF-8 sequence at a place; 0: it is none. */
static int sequence(const unsigned char *at) {
    static const unsigned least[] = {0, 0, 0x80, 0x800, 0x10000};
    int length = at[0] < 0x80 ? 1 : at[0] >> 5 == 6 ? 2 : at[0] >> 4 == 14 ? 3 : at[0] >> 3 == 30 ? 4 : 0;
    unsigned code = length > 1 ? at[0] & (0xff >> (length + 1)) : at[0];
    for (int i = 1; i < length; i++) {
        if (at[i] >> 6 != 2) return 0;
        code = code << 6 | (at[i] & 0x3f);
    }
    if (length > 1 && (code < least[length] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000))) return 0;
    return length;
}

void put_quoted(Buffer *buffer, const char *text) {
    put(buffer, "\"", 1);
    for (const unsigned char *at = (const unsigned char *)text; *at;) {
        int length = sequence(at);
        if (!length) {
            put(buffer, "\\ufffd", 6);
            length = 1;
        } else if (*at < 0x20 || *at == '"' || *at == '\\') {
            put_format(buffer, "\\u%04x", *at);
        } else {
            put(buffer, at, length);
        }
        at += length;
    }
    put(buffer, "\"", 1);
}

void write_record(const char *path, const Buffer *content) {
    char fresh[PATH_ROOM + 8];
    snprintf(fresh, sizeof fresh, "%s.new", path);
    int file = open(fresh, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (file < 0) fail(fresh);
    for (size_t done = 0; done < content->length;) {
        ssize_t written = write(file, content->content + done, content->length - done);
        if (written < 0) fail(fresh);
        done += written;
    }
    close(file);
    if (rename(fresh, path)) fail(path);
}

/* ---- reading ---- */

typedef struct Reader {
    const char *at;
    bool broken;
} Reader;

static void skip(Reader *reader) {
    while (*reader->at == ' ' || *reader->at == '\n' || *reader->at == '\t' || *reader->at == '\r') reader->at++;
}

static unsigned hexadecimal(Reader *reader) {
    char digits[5] = {0};
    for (int i = 0; i < 4; i++) {
        if (!*reader->at) {
            reader->broken = true;
            return 0;
        }
        digits[i] = *reader->at++;
    }
    return strtoul(digits, NULL, 16);
}

static void put_code(Buffer *text, unsigned code) {
    char bytes[4];
    int length = 0;
    if (code >= 0xdc80 && code <= 0xdcff) { /* a byte that was no UTF-8 */
        bytes[length++] = code - 0xdc00;
    } else if (code < 0x80) {
        bytes[length++] = code;
    } else if (code < 0x800) {
        bytes[length++] = 0xc0 | code >> 6;
        bytes[length++] = 0x80 | (code & 0x3f);
    } else if (code < 0x10000) {
        bytes[length++] = 0xe0 | code >> 12;
        bytes[length++] = 0x80 | (code >> 6 & 0x3f);
        bytes[length++] = 0x80 | (code & 0x3f);
    } else {
        bytes[length++] = 0xf0 | code >> 18;
        bytes[length++] = 0x80 | (code >> 12 & 0x3f);
        bytes[length++] = 0x80 | (code >> 6 & 0x3f);
        bytes[length++] = 0x80 | (code & 0x3f);
    }
    put(text, bytes, length);
}

static char *read_text(Reader *reader) {
    static const char named[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
    Buffer text = {0};
    put(&text, "", 0);
    reader->at++;
    while (*reader->at != '"' && !reader->broken) {
        if (!*reader->at) {
            reader->broken = true;
        } else if (*reader->at != '\\') {
            size_t plain = strcspn(reader->at, "\\\"");
            put(&text, reader->at, plain);
            reader->at += plain;
        } else if (reader->at[1] == 'u') {
            reader->at += 2;
            unsigned code = hexadecimal(reader);
            if (code >= 0xd800 && code < 0xdc00 && reader->at[0] == '\\' && reader->at[1] == 'u') {
                reader->at += 2;
                code = 0x10000 + ((code - 0xd800) << 10) + (hexadecimal(reader) - 0xdc00);
            }
            put_code(&text, code);
        } else {
            const char *found = reader->at[1] ? strchr(named, reader->at[1]) : NULL;
            if (!found) {
                reader->broken = true;
                break;
            }
            put(&text, &meant[found - named], 1);
            reader->at += 2;
        }
    }
    if (!reader->broken) reader->at++;
    return text.content;
}

static Json *read_value(Reader *reader) {
    Json *value = allocate(sizeof *value);
    skip(reader);
    char opened = *reader->at;
    if (opened == '{' || opened == '[') {
        char closing = opened == '{' ? '}' : ']';
        Json **end = &value->first;
        value->kind = opened == '{' ? OBJECT : LIST;
        reader->at++;
        skip(reader);
        while (*reader->at != closing && !reader->broken) {
            char *key = NULL;
            if (value->kind == OBJECT) {
                if (*reader->at != '"') break;
                key = read_text(reader);
                skip(reader);
                if (*reader->at++ != ':') break;
            }
            Json *inner = read_value(reader);
            inner->key = key;
            *end = inner;
            end = &inner->next;
            skip(reader);
            if (*reader->at == ',') {
                reader->at++;
                skip(reader);
            } else if (*reader->at != closing) {
                break;
            }
        }
        if (*reader->at != closing) reader->broken = true;
        else reader->at++;
    } else if (opened == '"') {
        value->kind = TEXT;
        value->text = read_text(reader);
    } else if (!strncmp(reader->at, "true", 4)) {
        value->kind = TRUE;
        reader->at += 4;
    } else if (!strncmp(reader->at, "false", 5)) {
        value->kind = FALSE;
        reader->at += 5;
    } else if (!strncmp(reader->at, "null", 4)) {
        reader->at += 4;
    } else {
        char *end;
        value->kind = NUMBER;
        value->number = strtod(reader->at, &end);
        if (end == reader->at) reader->broken = true;
        reader->at = end;
    }
    return value;
}

Json *json_read(const char *path) {
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return NULL;
    Buffer content = {0};
    char part[16384];
    ssize_t length;
    put(&content, "", 0);
    while ((length = read(file, part, sizeof part)) > 0) put(&content, part, length);
    close(file);
    Reader reader = {content.content, false};
    Json *found = read_value(&reader);
    skip(&reader);
    return reader.broken || *reader.at || length < 0 ? NULL : found;
}

Json *json_get(const Json *object, const char *key) {
    for (Json *each = object ? object->first : NULL; each; each = each->next)
        if (each->key && !strcmp(each->key, key)) return each;
    return NULL;
}

const char *json_text(const Json *object, const char *key) {
    Json *found = json_get(object, key);
    return found && found->kind == TEXT ? found->text : "";
}

double json_number(const Json *object, const char *key) {
    Json *found = json_get(object, key);
    return found && found->kind == NUMBER ? found->number : 0;
}

int json_count(const Json *list) {
    int count = 0;
    for (Json *each = list ? list->first : NULL; each; each = each->next) count++;
    return count;
}
