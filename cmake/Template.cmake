# Writes OUTPUT, a header that defines the constant NAME with the text of INPUT.
file(READ ${INPUT} text)
file(WRITE ${OUTPUT} "#pragma once\n\n// Written by cmake/Template.cmake.\ninline constexpr const char* ${NAME} = R\"~page~(${text})~page~\";\n")
